"""The URLs that we register are those of a Java 2.7.23 provider with the same configuration."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from floodmark.service.config import (
    Surroundings,
    provider_url,
    registered_url,
    registry_urls,
    with_registry,
)
from floodmark.service.interface import interface_of
from floodmark.service.settings import Settings
from floodmark.service.url import URL
from kit.dubbo_jars import DUBBO_2
from kit.dubbo_program import command, compiled
from kit.process import free_port
from kit.sample_service import INTERFACE, Sample
from kit.zookeeper import ZooKeeper

PROGRAM = Path(__file__).parent / "java" / "UrlsOf.java"
SAMPLE = interface_of(Sample, INTERFACE)

# What no two runs share.
PASSING = ("timestamp", "pid")

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "group-and-version": {"service": {"group": "g", "version": "1.2.0"}},
    "version-of-provider": {"provider": {"version": "2.0", "group": "p"}},
    "token-given": {"service": {"token": "secret"}},
    "token-of-provider": {"provider": {"token": "secret"}},
    "no-token": {"service": {"token": "false"}},
    "timeouts": {"service": {"timeout": 3000, "retries": 1, "loadbalance": "roundrobin"}},
    "provider-defaults": {"provider": {"timeout": 5000, "threads": 50, "loadbalance": "random"}},
    "service-over-provider": {
        "provider": {"timeout": 5000, "weight": 10},
        "service": {"timeout": 1000},
    },
    "protocol-settings": {
        "protocol": {"threads": 100, "threadpool": "fixed", "serialization": "hessian2"}
    },
    "protocol-payload": {"protocol": {"payload": 1000000, "heartbeat": 30000, "keepAlive": True}},
    "method-settings": {"methods": {"hello": {"timeout": 100, "retries": 3}}},
    "no-retry": {"methods": {"hello": {"retry": False}}},
    "method-executes": {"methods": {"find": {"executes": 5, "deprecated": True, "sticky": True}}},
    "argument-by-index": {
        "methods": {"hello": {"timeout": 5, "arguments": [{"index": 0, "callback": True}]}}
    },
    "argument-by-type": {
        "methods": {
            "hello": {"timeout": 5, "arguments": [{"type": "java.lang.String", "callback": False}]}
        }
    },
    "application-details": {
        "application": {
            "version": "7",
            "owner": "me",
            "organization": "shop",
            "architecture": "web",
            "environment": "test",
        }
    },
    "module": {"module": {"name": "billing", "version": "3"}},
    "path": {"service": {"path": "orders/v1"}},
    "context-path": {"protocol": {"contextpath": "shop"}},
    "flags": {"service": {"deprecated": True, "dynamic": False, "weight": 50, "warmup": 1000}},
    "filters": {"provider": {"filter": "echo"}, "service": {"filter": "token"}},
    "tag-and-layer": {"service": {"tag": "gray", "layer": "dao", "owner": "me"}},
    "escaped": {"service": {"document": "http://doc/a?b=c&d"}},
    "parameters": {"service": {"parameters": {"some-key": "v1"}}},
    "simplified": {
        "registry": {"simplified": True},
        "service": {"timeout": 5, "group": "g", "owner": "me", "executes": 3},
        "methods": {"hello": {"timeout": 7, "retries": 1}},
    },
    "scope-remote": {"service": {"scope": "remote", "proxy": "jdk", "accesslog": "true"}},
    "validation-dropped": {"service": {"validation": "true", "cache": "lru"}},
    "connections": {"service": {"connections": 2, "actives": 4, "callbacks": 10, "executes": 9}},
    "generic-value": {"service": {"generic": "true"}},
    "delay": {"service": {"delay": 1}},
    "delay-of-provider": {"provider": {"delay": 1}},
    "export": {"service": {"export": True}},
    "dynamic-of-registry": {"registry": {"dynamic": False}},
    "monitor": {"monitor": {"address": "127.0.0.1:7070"}},
    "two-methods": {
        "methods": {"hello": {"timeout": 1, "async": True}, "find": {"retry": False, "actives": 5}}
    },
    "cluster": {"service": {"cluster": "failfast", "layer": "dao"}},
    "local-host": {"protocol": {"host": "localhost"}},
    "parameters-everywhere": {
        "provider": {"parameters": {"a": "1", "b": "1"}},
        "service": {"parameters": {"b": "2"}},
    },
}


@pytest.fixture(scope="module")
def java_urls(zookeeper: ZooKeeper) -> dict[str, list[URL]]:
    """What Java registers, by case."""
    ports = {name: free_port() for name in CASES}
    text = "\n".join(
        line for name, case in CASES.items() for line in _lines(name, case, zookeeper, ports[name])
    )
    classes = compiled(DUBBO_2, SAMPLE, PROGRAM)
    outcome = subprocess.run(
        command(DUBBO_2, classes, "UrlsOf", []),
        input=text + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-5000:] + outcome.stdout[-2000:]
    found: dict[str, list[URL]] = {}
    for line in outcome.stdout.splitlines():
        if line.startswith("case "):
            urls = found[line.removeprefix("case ")] = []
        elif line.startswith("dubbo://"):
            urls.append(URL.parse(line))
    return found


def _lines(name: str, case: dict[str, Any], zookeeper: ZooKeeper, port: int) -> list[str]:
    lines = [f"case {name}", "application name shop", f"protocol a port {port}"]
    address = f"registry zookeeper://{zookeeper.hosts}"
    options = [f"{address} {k} {_text(v)}" for k, v in case.get("registry", {}).items()]
    lines += options or [address]
    for section in ("application", "module", "monitor", "provider", "service"):
        for key, value in case.get(section, {}).items():
            if key == "generic":
                lines.append("generic yes")
            elif key == "parameters":
                lines += [f"parameter {section} {k} {v}" for k, v in value.items()]
            else:
                lines.append(f"{section} {key} {_text(value)}")
    lines += [f"protocol a {key} {_text(v)}" for key, v in case.get("protocol", {}).items()]
    for method, values in case.get("methods", {}).items():
        for key, value in values.items():
            if key != "arguments":
                lines.append(f"method {method} {key} {_text(value)}")
        for argument in values.get("arguments", ()):
            lines += [f"argument {method} {k} {_text(v)}" for k, v in argument.items()]
    return [*lines, "end"]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


@pytest.mark.java
@pytest.mark.parametrize("name", CASES)
def test_the_registered_url_is_java_s(name: str, java_urls: dict[str, list[URL]]) -> None:
    (java,) = java_urls[name]
    ours = our_url(CASES[name], java)
    assert (ours.protocol, ours.host, ours.port, ours.path) == (
        java.protocol,
        java.host,
        java.port,
        java.path,
    )
    assert comparable(ours) == comparable(java)


def comparable(url: URL) -> dict[str, str]:
    found = {key: value for key, value in url.parameters.items() if key not in PASSING}
    if "methods" in found:
        found["methods"] = ",".join(sorted(found["methods"].split(",")))
    return found


def our_url(case: dict[str, Any], java: URL) -> URL:
    methods = case.get("methods", {})
    settings = Settings(
        application={"name": "shop", "qosEnable": False, **case.get("application", {})},
        module=case.get("module", {}),
        monitor=case.get("monitor", {}),
        provider=case.get("provider", {}),
        protocols=({"name": "dubbo", "port": java.port, **case.get("protocol", {})},),
        registries=({"address": "zookeeper://127.0.0.1:2181", **case.get("registry", {})},),
        service=case.get("service", {}),
        methods=tuple({"name": key, **value} for key, value in methods.items()),
    )
    around = Surroundings(0, os.getpid(), {}, java.host, lambda: "random", lambda first: first)
    url = provider_url(settings, SAMPLE, settings.protocols[0], around)
    (registry,) = registry_urls(settings, for_provider=True)
    return registered_url(with_registry(url, registry, settings, around), registry)
