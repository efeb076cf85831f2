"""control_records."""

from floodmark.wire.schema import int32, message


@message(None, "data", versions="0", flexible=None)
class EndTxnMarker:
    coordinator_epoch: int = int32()
