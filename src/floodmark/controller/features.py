"""Decisions: the cluster's feature levels, and blocks of producer ids. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from floodmark.controller.decision import Decision, Refusal, View
from floodmark.metadata import paths
from floodmark.metadata.image import Features, ImageChange
from floodmark.metadata.store import SetData
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import UpgradeType

# What this version of Floodmark supports, and a new cluster's initial levels.
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"group.version": (0, 1), "transaction.version": (0, 2)}
)
INITIAL_FEATURES: Mapping[str, int] = MappingProxyType(
    {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}
)
PRODUCER_ID_BLOCK_SIZE = 1000
"""How many ids one write hands out. A restarting broker loses the rest of its block."""
MAX_PRODUCER_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """`upgrade_type` is the number from the request, known or not."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class FeatureAnswer:
    name: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    size: int


def update_features(
    view: View, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
) -> Decision[list[FeatureAnswer]]:
    """All or nothing: one invalid level leaves all features unchanged."""
    answers = [
        FeatureAnswer(update.name, *(_refuse(view, update) or (ErrorCode.NONE, None)))
        for update in updates
    ]
    if validate_only or any(answer.error_code is not ErrorCode.NONE for answer in answers):
        return Decision(answers)
    levels = dict(view.image.features.finalized)
    levels.update({update.name: update.level for update in updates})
    if levels == view.image.features.finalized:
        return Decision(answers)
    features = Features(levels, view.image.features.epoch + 1)
    operation = SetData(paths.FEATURE, paths.encode_features(levels), view.image.features.epoch)
    return Decision(answers, [operation], ImageChange(features=features))


def _refuse(view: View, update: FeatureUpdate) -> Refusal | None:
    prefix = f"Invalid update version {update.level} for feature {update.name}."
    if update.upgrade_type not in set(UpgradeType):
        return _invalid(f"{prefix} The controller does not support the given upgrade type.")
    if update.level < 0:
        return _invalid(f"{prefix} A feature version cannot be less than 0.")
    if update.name not in SUPPORTED_FEATURES:
        return _invalid(f"{prefix} Local controller does not support this feature.")
    lowest, highest = SUPPORTED_FEATURES[update.name]
    if not lowest <= update.level <= highest:
        return _invalid(f"{prefix} Local controller only supports versions {lowest}-{highest}")
    current = view.image.features.finalized.get(update.name, 0)
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return _invalid(
            f"{prefix} Can't downgrade the version of this feature without setting the upgrade "
            "type to either safe or unsafe downgrade."
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return _invalid(f"{prefix} Can't downgrade to a newer version.")
    return None


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_UPDATE_VERSION, message)


def allocate_producer_ids(view: View, broker_id: int) -> Decision[ProducerIdBlock]:
    """The next block, for this broker only."""
    first = view.image.next_producer_id
    last = first + PRODUCER_ID_BLOCK_SIZE - 1
    if last > MAX_PRODUCER_ID:
        raise OverflowError("all producer ids have been handed out")
    return Decision(
        ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE),
        [SetData(paths.PRODUCER_ID_BLOCK, paths.encode_producer_id_block(broker_id, first, last))],
        ImageChange(next_producer_id=last + 1),
    )
