"""Dubbo's URL: as Java writes and reads it."""

import pytest

from floodmark.service.errors import ConfigError
from floodmark.service.url import URL, decode, encode, service_key

TEXT = "dubbo://user:pw@10.0.0.1:20880/dev.shop.Orders?group=a&methods=find,list&version=1.0"


def test_parsed_and_written_again() -> None:
    url = URL.parse(TEXT)
    assert (url.protocol, url.host, url.port, url.path) == (
        "dubbo",
        "10.0.0.1",
        20880,
        "dev.shop.Orders",
    )
    assert (url.username, url.password, url.get("methods")) == ("user", "pw", "find,list")
    assert str(url) == TEXT
    assert URL.parse(str(url)) == url and hash(URL.parse(str(url))) == hash(url)


def test_parameters_are_sorted_and_empty_ones_left_out() -> None:
    assert str(URL("dubbo", "h", 1, "p", {"b": "2", "a": "1", "c": ""})) == "dubbo://h:1/p?a=1&b=2"


def test_encoding_is_java_s() -> None:
    assert encode("dubbo://h:1/p?a=~ *-._é&b=$echo") == (
        "dubbo%3A%2F%2Fh%3A1%2Fp%3Fa%3D%7E+*-._%C3%A9%26b%3D%24echo"
    )
    assert decode(encode(TEXT)) == TEXT


def test_merging() -> None:
    url = URL.parse(TEXT)
    assert url.with_parameters({"group": "b"}).get("group") == "b"
    assert url.with_absent({"group": "b", "x": "1"}).get("group") == "a"
    assert url.without(["group", "version"]).parameters == {"methods": "find,list"}
    assert url.without(lambda key: key.startswith("m")).get("methods") == ""
    assert url.get("group") == "a"


def test_method_parameters_go_before() -> None:
    url = URL("dubbo", "h", 1, "p", {"timeout": "5", "find.timeout": "9"})
    assert url.method_parameter("find", "timeout") == "9"
    assert url.method_parameter("list", "timeout") == "5"


def test_service_keys() -> None:
    assert URL.parse(TEXT).service_key == "a/dev.shop.Orders:1.0"
    assert service_key("p") == "p" and service_key("p", version="0.0.0") == "p"


@pytest.mark.parametrize("text", ["", "no-protocol", "://x", "dubbo://h:port/p", "dubbo://h:70000"])
def test_texts_that_are_no_url(text: str) -> None:
    with pytest.raises(ConfigError):
        URL.parse(text)
