"""The value of the marker that ends a transaction in a partition's log.

Used by the records room and the transaction coordinator. The marker's key, a version and a type,
is not a message and is written by hand there.
"""

from floodmark.wire.schema import int32, message


@message(None, "data", versions="0", flexible=None)
class EndTxnMarker:
    coordinator_epoch: int = int32()
