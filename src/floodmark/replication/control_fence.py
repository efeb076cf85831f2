"""CORE: whether a broker obeys a control request (LeaderAndIsr, StopReplica, UpdateMetadata).

One that was meant for an earlier life of this broker is refused (KIP-380), and so is one of a
controller that has been replaced, by an epoch that never goes back (KAFKA-14154).
"""

from __future__ import annotations

from floodmark.wire.errors import NO_ERROR, ErrorCode

UNKNOWN_EPOCH = -1


class ControlFence:
    """`broker_epoch` is our own, set by the registration; the controller's is the highest seen."""

    __slots__ = ("broker_epoch", "controller_epoch")

    def __init__(self) -> None:
        self.broker_epoch = UNKNOWN_EPOCH
        self.controller_epoch = UNKNOWN_EPOCH

    def check(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """A broker epoch of -1 asks for no check; a higher one than ours is of a registration that
        we have yet to hear about. Before our first one, whatever names an epoch is for an earlier
        life."""
        if broker_epoch != UNKNOWN_EPOCH:
            is_registered = self.broker_epoch != UNKNOWN_EPOCH
            if not is_registered or broker_epoch < self.broker_epoch:
                return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return NO_ERROR
