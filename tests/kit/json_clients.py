"""Clients in other languages over TLS and SASL: programs that take their settings as JSON files.

Each program prints a line per file, "ok" or its error. `every_way_in` lists the ways that work,
`wrong_ways` those that a broker or a client refuses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kit.certificates import Authority
from kit.programs import run_program
from kit.secure_broker import ALICE, MECHANISMS, PASSWORD, SecureBroker, unsecured_token

Settings = dict[str, str]


def login(mechanism: str, password: str = PASSWORD) -> Settings:
    if mechanism == "OAUTHBEARER":
        return {"mechanism": mechanism, "token": unsecured_token()}
    return {"mechanism": mechanism, "user": ALICE, "password": password}


def at(secure: SecureBroker, listener: str, **given: str) -> Settings:
    trust = {"ca": str(secure.authority.ca_file)} if listener.endswith("SSL") else {}
    return {"bootstrap": secure.address(listener), **trust, **given}


def every_way_in(secure: SecureBroker) -> list[Settings]:
    certificate = str(secure.authority.client("json"))
    ways = [at(secure, "SSL"), at(secure, "SSL", certificate=certificate)]
    for mechanism in MECHANISMS:
        ways.append(at(secure, "SASL_PLAINTEXT", **login(mechanism)))
        ways.append(at(secure, "SASL_SSL", **login(mechanism)))
    return ways


def wrong_ways(secure: SecureBroker, folder: Path) -> dict[str, Settings]:
    other = str(Authority(folder / "other").ca_file)
    expired = {"mechanism": "OAUTHBEARER", "token": unsecured_token(expires_in_s=-600)}
    return {
        "wrong PLAIN password": at(secure, "SASL_SSL", **login("PLAIN", "wrong")),
        "wrong SCRAM password": at(secure, "SASL_SSL", **login("SCRAM-SHA-512", "wrong")),
        "expired token": at(secure, "SASL_SSL", **expired),
        "unknown authority": at(secure, "SSL") | {"ca": other},
    }


def outcomes(command: Sequence[str], folder: Path, clients: Sequence[Settings]) -> list[str]:
    files = []
    for number, client in enumerate(clients):
        path = folder / f"client-{number}.json"
        path.write_text(json.dumps(client))
        files.append(str(path))
    return run_program([*command, *files], timeout_s=120).splitlines()
