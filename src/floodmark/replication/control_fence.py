"""CORE: whether a broker accepts a control request (LeaderAndIsr, StopReplica, UpdateMetadata).

Refuses requests meant for an earlier incarnation of this broker (KIP-380), and those of a replaced
controller. The highest controller epoch seen never decreases (KAFKA-14154).
"""

from __future__ import annotations

from floodmark.wire.errors import NO_ERROR, ErrorCode

UNKNOWN_EPOCH = -1


class ControlFence:
    """`broker_epoch` is ours, set at registration. The controller epoch is the highest seen."""

    __slots__ = ("broker_epoch", "controller_epoch")

    def __init__(self) -> None:
        self.broker_epoch = UNKNOWN_EPOCH
        self.controller_epoch = UNKNOWN_EPOCH

    def check(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """A broker epoch of -1 disables the check.

        A higher one than ours belongs to a registration that we have yet to learn of. Before our
        first registration, any epoch belongs to an earlier incarnation.
        """
        if broker_epoch != UNKNOWN_EPOCH:
            is_registered = self.broker_epoch != UNKNOWN_EPOCH
            if not is_registered or broker_epoch < self.broker_epoch:
                return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return NO_ERROR
