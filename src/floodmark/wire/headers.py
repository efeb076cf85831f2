"""The headers in front of every request and response.

Called by the dispatcher for each frame and by the client's connection. They are written by hand and
not as definitions, because a request header contains the API key and version that determine its own
version.

Request headers: v0 has no client id, v1 has one, v2 adds a tag section. The client id keeps its
two-byte length even in v2, so that a broker can read it before it knows the version.
Response headers: v0 is the correlation id, v1 adds a tag section. ApiVersions always responds with
v0 (KIP-511), because its client does not know yet which versions the broker supports.
"""

import dataclasses
import struct
from collections.abc import Callable

from floodmark.wire.api_keys import FIRST_FLEXIBLE_VERSION, NEVER_FLEXIBLE, ApiKey
from floodmark.wire.primitives import MAX_BYTES_TO_GROW, check_growth, skip_tags
from floodmark.wire.schema import Buffer, DecodeError, EncodeError

# Plain ints, because looking up an enum member costs more than the rest of the comparison.
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_CONTROLLED_SHUTDOWN = int(ApiKey.CONTROLLED_SHUTDOWN)

_FIXED = struct.Struct(">hhi")
_WITH_CLIENT_ID_LENGTH = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")
_CORRELATION_ID_AND_TAGS = struct.Struct(">ix")


@dataclasses.dataclass(slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def request_header_version(api_key: int, api_version: int) -> int:
    if api_version >= FIRST_FLEXIBLE_VERSION.get(api_key, NEVER_FLEXIBLE):
        return 2
    # ControlledShutdown v0 predates client ids in headers.
    return 0 if api_key == _CONTROLLED_SHUTDOWN and api_version == 0 else 1


def response_header_version(api_key: int, api_version: int) -> int:
    if api_key == _API_VERSIONS:
        return 0
    return 1 if api_version >= FIRST_FLEXIBLE_VERSION.get(api_key, NEVER_FLEXIBLE) else 0


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of a request, and the offset of the request's body.

    For an unknown API key the client id is missing, because its position is unknown. An unknown
    version is read like the newest.
    """
    size = len(buffer)
    if size < 8:
        raise DecodeError(f"a request of {size} bytes has no complete header")
    api_key, api_version, correlation_id = _FIXED.unpack_from(buffer)
    first_flexible = FIRST_FLEXIBLE_VERSION.get(api_key)
    if first_flexible is None or (api_version == 0 and api_key == _CONTROLLED_SHUTDOWN):
        return RequestHeader(api_key, api_version, correlation_id), 8
    try:
        length = buffer[8] << 8 | buffer[9]
        position = 10 + length
        client_id: str | None
        if length == 0xFFFF:
            client_id, position = None, 10
        elif length > 0x7FFF or position > size:
            raise DecodeError(f"the client id claims {length} bytes, {size - 10} remain")
        else:
            client_id = str(buffer[10:position], "utf-8", "replace")
            if length > MAX_BYTES_TO_GROW:
                check_growth("the client id", client_id)
        if api_version >= first_flexible:
            tags = buffer[position]
            position += 1
            if tags:
                position = skip_tags(buffer, position, tags, size)
    except IndexError:
        raise DecodeError("the request ends inside its header") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytes:
    version = request_header_version(header.api_key, header.api_version)
    fixed = (header.api_key, header.api_version, header.correlation_id)
    try:
        if version == 0:
            return _FIXED.pack(*fixed)
        tags = b"\0" if version == 2 else b""
        if header.client_id is None:
            return _WITH_CLIENT_ID_LENGTH.pack(*fixed, -1) + tags
        client_id = header.client_id.encode()
        return _WITH_CLIENT_ID_LENGTH.pack(*fixed, len(client_id)) + client_id + tags
    except (struct.error, UnicodeError) as error:
        raise EncodeError(f"the request header cannot be written: {error}") from error


def response_header_encoder(api_key: int, api_version: int) -> Callable[[int], bytes]:
    """A function that encodes the response header for a correlation id."""
    if response_header_version(api_key, api_version):
        return _CORRELATION_ID_AND_TAGS.pack
    return _CORRELATION_ID.pack


def decode_response_header(buffer: Buffer, header_version: int) -> tuple[int, int]:
    """The correlation id, and the offset of the response's body."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer)
        if header_version == 0:
            return correlation_id, 4
        tags = buffer[4]
        return correlation_id, skip_tags(buffer, 5, tags, len(buffer)) if tags else 5
    except (struct.error, IndexError):
        raise DecodeError("the response ends inside its header") from None
