"""Electing the controller: the broker that creates `/controller` and raises the epoch. PURE.

Both happen in one multi, so that no two controllers share an epoch (KAFKA-14154). Every later write
of the controller checks the version that the epoch's node got here (KAFKA-6082).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floodmark.metadata import paths
from floodmark.metadata.loader import Identity
from floodmark.metadata.store import Create, Node, Operation, SetData


@dataclass(frozen=True, slots=True)
class Candidacy:
    """The writes that make a broker the controller.

    `epoch_version` is valid once they are stored.
    """

    claim: Create
    raised_epoch: Create | SetData
    epoch_version: int

    @property
    def operations(self) -> Sequence[Operation]:
        """Records the term next to Kafka's nodes, so the next controller sees whether it was one of
        Floodmark's."""
        return [self.claim, self.raised_epoch, SetData(paths.LAST_REIGN, self.raised_epoch.data)]

    def has_won(self, controller: Node | None, epoch: Node | None) -> bool:
        """For use after a lost response. The broker that wrote this epoch version also wrote the
        controller node, and the claim includes our id and a time."""
        return (
            controller is not None
            and epoch is not None
            and controller.data == self.claim.data
            and (epoch.data, epoch.version) == (self.raised_epoch.data, self.epoch_version)
        )


def candidacy(identity: Identity, broker_id: int, now_ms: int) -> Candidacy:
    epoch = identity.controller_epoch + 1
    claim = Create(paths.CONTROLLER, paths.encode_controller(broker_id, now_ms), ephemeral=True)
    text = str(epoch).encode()
    known_version = identity.controller_epoch_version
    if known_version is None:
        return Candidacy(claim, Create(paths.CONTROLLER_EPOCH, text), 0)
    raised = SetData(paths.CONTROLLER_EPOCH, text, known_version)
    return Candidacy(claim, raised, known_version + 1)
