"""Writes the tables of docs/compatibility.md that the code knows best: APIs, versions, permissions.

Run it after a change of `SERVED` or of an `ACCESS`: `python tools/compatibility.py`. A unit test
compares the page with what this would write.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from floodmark.apis.dispatch import SERVED, SERVED_TO_BROKERS
from floodmark.wire.api_keys import ApiKey

PAGE = Path(__file__).resolve().parent.parent / "docs" / "compatibility.md"
NO_ACLS = "SECURITY_DISABLED without an authorizer"
NO_TOKENS = "DELEGATION_TOKEN_AUTH_DISABLED without delegation.token.secret.key"
NOTES = {
    ApiKey.PRODUCE: "0 to 2 are advertised for old librdkafka, and answered UNSUPPORTED_VERSION",
    ApiKey.DESCRIBE_ACLS: NO_ACLS,
    ApiKey.CREATE_ACLS: NO_ACLS,
    ApiKey.DELETE_ACLS: NO_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN: NO_TOKENS,
    ApiKey.RENEW_DELEGATION_TOKEN: NO_TOKENS,
    ApiKey.EXPIRE_DELEGATION_TOKEN: NO_TOKENS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: NO_TOKENS,
}


def served_table() -> str:
    rows = ["| key | API | versions | |", "|---|---|---|---|"]
    for api_key, served in sorted({**SERVED, **SERVED_TO_BROKERS}.items()):
        versions, note = _versions(served.lowest, served.highest), NOTES.get(api_key, "")
        if api_key in SERVED_TO_BROKERS:
            note = "only in a cluster, between brokers"
        rows.append(f"| {int(api_key)} | {_name(api_key)} | {versions} | {note} |")
    return "\n".join(rows)


def access_table() -> str:
    """What each API asks, as its module declares it."""
    rows = ["| API | asks for |", "|---|---|"]
    for api_key in sorted(SERVED):
        access = import_module(f"floodmark.apis.handlers.{api_key.name.lower()}").ACCESS
        rows.append(f"| {_name(api_key)} | {access.describe() or 'nothing'} |")
    return "\n".join(rows)


def with_tables(page: str) -> str:
    """The page with its generated parts rewritten."""
    page = _replace(page, "served", served_table())
    return _replace(page, "access", access_table())


def _replace(page: str, part: str, table: str) -> str:
    begin, end = f"<!-- {part}: made by tools/compatibility.py -->", f"<!-- end of {part} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    page, count = pattern.subn(lambda _: f"{begin}\n\n{table}\n\n{end}", page)
    if count != 1:
        raise ValueError(f"{PAGE.name} needs the marks {begin} and {end} once")
    return page


def _name(api_key: ApiKey) -> str:
    return "".join(word.capitalize() for word in api_key.name.split("_"))


def _versions(lowest: int, highest: int) -> str:
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
