"""The inputs and outputs of decisions. PURE; shared by all decisions in this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from floodmark.config import BrokerConfig
from floodmark.metadata.image import ImageChange, MetadataImage
from floodmark.metadata.store import Operation
from floodmark.wire.errors import ErrorCode

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class View:
    """The state of the cluster at the moment of a decision.

    Randomness is an argument: `random_below(n)` returns a number in [0, n), `new_topic_id` a new
    id.
    """

    image: MetadataImage
    config: BrokerConfig
    random_below: Callable[[int], int]
    new_topic_id: Callable[[], UUID]


@dataclass(frozen=True, slots=True)
class Decision(Generic[A]):
    """The answer to give once `operations` are stored. `change` is their effect on the image."""

    answer: A
    operations: Sequence[Operation] = ()
    change: ImageChange = field(default_factory=ImageChange)


def then(
    view: View, before: Decision[None], decision: Decision[Any]
) -> tuple[View, Decision[None]]:
    """The view after a decision, and both decisions combined."""
    together = Decision(
        None, [*before.operations, *decision.operations], before.change.then(decision.change)
    )
    return replace(view, image=view.image.apply(decision.change)), together


class Refusal(NamedTuple):
    """The reason for a refusal, as sent in a response."""

    error_code: ErrorCode
    message: str | None = None


class ControllerUnavailable(Exception):
    """A change could not be stored. `error_code` is for the client."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
