"""Provider URLs by Dubbo's rules: hosts, ports, tokens, arguments, registries, monitors.

tests/service/test_provider_urls.py compares whole URLs with those of Java.
"""

from __future__ import annotations

from typing import Any

import pytest

from floodmark.service.api import service, settings_of
from floodmark.service.config import (
    Surroundings,
    provider_url,
    registered_url,
    registry_urls,
    with_registry,
)
from floodmark.service.errors import ConfigError
from floodmark.service.interface import interface_of
from floodmark.service.settings import Settings
from floodmark.service.url import URL, decode
from kit.sample_service import INTERFACE, Sample

SAMPLE = interface_of(Sample, INTERFACE)


def url_of(environment: dict[str, str] | None = None, **sections: Any) -> URL:
    settings = Settings(**sections)
    around = Surroundings(1, 2, environment or {}, "10.0.0.9", lambda: "random", lambda p: p + 7)
    return provider_url(settings, SAMPLE, settings.protocols[0], around)


def test_without_a_host_all_addresses_are_bound_and_ours_is_registered() -> None:
    url = url_of()
    assert (url.host, url.port, url.get("anyhost")) == ("10.0.0.9", 20880, "true")
    assert (url.get("bind.ip"), url.get("bind.port")) == ("10.0.0.9", "20880")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0"])
def test_a_local_host_is_not_registered(host: str) -> None:
    assert url_of(protocols=({"host": host},)).host == "10.0.0.9"


def test_hosts_and_ports_go_by_their_order() -> None:
    provider = {"host": "10.0.0.1", "port": 1001}
    assert url_of(provider=provider).address == "10.0.0.1:1001"
    protocol = {"host": "10.0.0.2", "port": 1002}
    assert url_of(provider=provider, protocols=(protocol,)).address == "10.0.0.2:1002"
    environment = {"DUBBO_IP_TO_BIND": "10.0.0.3", "DUBBO_PORT_TO_BIND": "1003"}
    url = url_of(environment, provider=provider, protocols=(protocol,))
    assert (url.address, url.get("anyhost")) == ("10.0.0.3:1003", "false")
    environment |= {"DUBBO_DUBBO_IP_TO_BIND": "10.0.0.4", "DUBBO_IP_TO_REGISTRY": "10.0.0.5"}
    environment |= {"DUBBO_PORT_TO_REGISTRY": "1005"}
    url = url_of(environment, provider=provider, protocols=(protocol,))
    assert (url.address, url.get("bind.ip")) == ("10.0.0.5:1005", "10.0.0.4")
    assert url.get("bind.port") == "1003"
    assert url_of(protocols=({"port": -1},)).port == 20887


@pytest.mark.parametrize(
    "environment",
    [
        {"DUBBO_IP_TO_BIND": "127.0.0.1"},
        {"DUBBO_IP_TO_REGISTRY": "localhost"},
        {"DUBBO_PORT_TO_BIND": "no port"},
        {"DUBBO_PORT_TO_REGISTRY": "70000"},
    ],
)
def test_an_environment_that_makes_no_sense_is_an_error(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        url_of(environment)


@pytest.mark.parametrize(
    ("token", "found"), [("true", "random"), ("default", "random"), ("x", "x")]
)
def test_tokens(token: str, found: str) -> None:
    assert url_of(service={"token": token}).get("token") == found


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([{"callback": True}], "needs an index or a type"),
        ([{"index": 3}], "has no argument 3"),
        ([{"index": 0, "type": "int"}], "is java.lang.String, not int"),
    ],
)
def test_arguments_that_do_not_match_are_errors(arguments: list[Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        url_of(methods=({"name": "hello", "arguments": arguments},))


def test_unknown_methods_are_errors() -> None:
    with pytest.raises(ConfigError, match="has no method 'helo'"):
        url_of(methods=({"name": "helo"},))


def test_registries() -> None:
    settings = Settings(
        registries=(
            {"address": "N/A"},
            {"address": "zookeeper://a:1,b:2?session=5"},
            {"address": "zookeeper://a:1?backup=b:2,c:3|zookeeper://d:4"},
            {"address": "h:9", "protocol": "zookeeper", "register": False},
        )
    )
    found = registry_urls(settings, for_provider=True)
    assert [url.address for url in found] == ["a:1", "a:1", "d:4"]
    assert [url.get("backup") for url in found] == ["b:2", "b:2,c:3", ""]
    assert {url.protocol for url in found} == {"registry"}
    assert {url.get("registry") for url in found} == {"zookeeper"}
    assert len(registry_urls(settings, for_provider=False)) == 4


def test_a_monitor_is_part_of_the_url_but_not_registered() -> None:
    settings = Settings(
        application={"name": "shop"},
        registries=({"address": "zookeeper://a:1"},),
        monitor={"address": "dubbo://10.0.0.7:7070"},
    )
    around = Surroundings(1, 2, {}, "10.0.0.9", lambda: "", lambda p: p)
    (registry,) = registry_urls(settings, for_provider=True)
    url = with_registry(provider_url(settings, SAMPLE, {}, around), registry, settings, around)
    monitor = URL.parse(decode(url.get("monitor")))
    assert (monitor.address, monitor.get("application")) == ("10.0.0.7:7070", "shop")
    assert registered_url(url, registry).get("monitor") == ""


def test_options_of_the_decorator_hold_unless_others_are_given() -> None:
    @service("dev.shop.Orders", group="a", timeout=5)
    class Orders:
        pass

    settings = settings_of(Orders, group="b", registry="zookeeper://a:1", port=9)
    assert settings.service == {"interface": "dev.shop.Orders", "group": "b", "timeout": 5}
    assert settings.protocols == ({"name": "dubbo", "port": 9},)
    with pytest.raises(ConfigError, match="has no Java interface"):
        settings_of(int)
