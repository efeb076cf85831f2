"""Request and response headers in all their versions."""

import pytest

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_encoder,
    response_header_version,
)
from floodmark.wire.schema import DecodeError, EncodeError


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "ü" * 200])
@pytest.mark.parametrize("version", [8, 9])
def test_a_request_header_survives_the_wire(client_id: str | None, version: int) -> None:
    header = RequestHeader(ApiKey.PRODUCE, version, -5, client_id)
    data = encode_request_header(header)
    assert decode_request_header(memoryview(data + b"body")) == (header, len(data))


def test_a_flexible_request_header_keeps_the_old_form_of_the_client_id() -> None:
    header = RequestHeader(ApiKey.PRODUCE, 9, 1, "a")
    assert encode_request_header(header) == b"\0\0\0\x09\0\0\0\x01\0\x01a\0"


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    data = b"\0\0\0\x09\0\0\0\x01\0\x01a\x01\x05\x02zz"
    assert decode_request_header(data + b"body") == (RequestHeader(0, 9, 1, "a"), len(data))


def test_the_first_controlled_shutdown_has_no_client_id() -> None:
    header = RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 1)
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 0) == 0
    assert decode_request_header(encode_request_header(header) + b"body") == (header, 8)


def test_an_unknown_api_key_gives_the_fixed_part() -> None:
    data = b"\x03\xe8\0\x01\0\0\0\x07\xff\xff"
    assert decode_request_header(data) == (RequestHeader(1000, 1, 7), 8)


def test_an_unknown_version_of_api_versions_is_read_like_the_newest() -> None:
    data = b"\0\x12\0\x63\0\0\0\x07\0\x01a\0"
    assert decode_request_header(data) == (RequestHeader(18, 99, 7, "a"), 12)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\x09\0\0\0",
        b"\0\0\0\x09\0\0\0\x01",
        b"\0\0\0\x09\0\0\0\x01\0",
        b"\0\0\0\x09\0\0\0\x01\0\x05ab",
        b"\0\0\0\x09\0\0\0\x01\x80\x00ab",
        b"\0\0\0\x09\0\0\0\x01\0\x01a",
        b"\0\0\0\x09\0\0\0\x01\0\x01a\x01",
        b"\0\0\0\x09\0\0\0\x01\0\x01a\x01\x05\x7f",
    ],
)
def test_a_damaged_request_header_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(memoryview(data))


def test_a_client_id_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError):
        encode_request_header(RequestHeader(ApiKey.PRODUCE, 9, 1, "x" * 40_000))


def test_flexible_responses_have_tagged_fields_but_those_of_api_versions_never() -> None:
    assert response_header_encoder(ApiKey.PRODUCE, 8)(1) == b"\0\0\0\x01"
    assert response_header_encoder(ApiKey.PRODUCE, 9)(1) == b"\0\0\0\x01\0"
    assert response_header_encoder(ApiKey.API_VERSIONS, 4)(1) == b"\0\0\0\x01"
    assert response_header_version(1000, 5) == 0


def test_a_response_header_is_read_in_either_version() -> None:
    assert decode_response_header(b"\0\0\0\x01rest", 0) == (1, 4)
    assert decode_response_header(b"\0\0\0\x01\0rest", 1) == (1, 5)
    assert decode_response_header(b"\0\0\0\x01\x01\x00\x01zrest", 1) == (1, 8)


@pytest.mark.parametrize(("data", "version"), [(b"\0\0\0", 0), (b"\0\0\0\x01", 1)])
def test_a_cut_response_header_is_refused(data: bytes, version: int) -> None:
    with pytest.raises(DecodeError):
        decode_response_header(data, version)
