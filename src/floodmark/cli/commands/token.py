"""`floodmark token ...`: delegation tokens, with the options of Kafka's kafka-delegation-tokens."""

from __future__ import annotations

import base64
from binascii import Error as Base64Error
from datetime import UTC, datetime

import click

from floodmark.cli.help import Group
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, print_json, print_table
from floodmark.cli.session import admin_option, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.tokens import TokenDescription

_LAST_S = 253_402_300_799
"""The end of the year 9999."""

COLUMNS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAX")


def _check_principals(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for value in values:
        kind, _, name = value.partition(":")
        if not kind or not name:
            raise click.BadParameter(f"{value!r} is not of the form User:alice")
    return values


def _read_hmac(_context: click.Context, _parameter: click.Parameter, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except Base64Error:
        raise click.BadParameter("it is not base64") from None


_hmac = click.option(
    "--hmac", required=True, callback=_read_hmac, metavar="BASE64", help="The token's secret."
)


@click.group(
    cls=Group,
    examples=[
        "floodmark token create --renewer-principal User:ops",
        "floodmark token describe",
    ],
)
def token() -> None:
    """Create, renew, expire and list delegation tokens.

    A token lets its bearer log in as its owner for a while: by SCRAM, with the token's id as the
    name, its HMAC as the password, and tokenauth="true" in the JAAS line.
    """


@token.command(
    examples=[
        "floodmark token create",
        "floodmark token create --owner-principal User:bob --max-life-time-period 3600000",
    ]
)
@click.option(
    "--owner-principal",
    "owners",
    multiple=True,
    callback=_check_principals,
    help="The owner, such as User:alice. Default: you.",
)
@click.option(
    "--renewer-principal",
    "renewers",
    multiple=True,
    callback=_check_principals,
    help="Who else may renew and expire it.",
)
@click.option(
    "--max-life-time-period",
    "max_lifetime_ms",
    type=int,
    default=-1,
    metavar="MS",
    help="For how long it can be renewed; -1 for delegation.token.max.lifetime.ms.",
)
@output_option
@admin_option
def create(
    owners: tuple[str, ...],
    renewers: tuple[str, ...],
    max_lifetime_ms: int,
    output: str,
    admin: Admin,
) -> None:
    """Create a token."""
    if len(owners) > 1:
        raise click.UsageError("a token has one owner")

    async def work() -> TokenDescription:
        async with admin:
            return await admin.create_delegation_token(
                owner=owners[0] if owners else None,
                renewers=renewers,
                max_lifetime_ms=max_lifetime_ms,
            )

    made = run_client(work())
    if output == JSON:
        print_json(_document(made))
    else:
        _print([made])


@token.command(examples=["floodmark token renew --hmac c2VjcmV0 --renew-time-period 3600000"])
@_hmac
@click.option(
    "--renew-time-period",
    "period_ms",
    type=int,
    default=-1,
    metavar="MS",
    help="For how long from now; -1 for delegation.token.expiry.time.ms.",
)
@output_option
@admin_option
def renew(hmac: bytes, period_ms: int, output: str, admin: Admin) -> None:
    """Prolong a token, as its owner or as a renewer."""

    async def work() -> int:
        async with admin:
            return await admin.renew_delegation_token(hmac, period_ms)

    _print_expiry(run_client(work()), output)


@token.command(examples=["floodmark token expire --hmac c2VjcmV0"])
@_hmac
@click.option(
    "--expiry-time-period",
    "period_ms",
    type=int,
    default=-1,
    metavar="MS",
    help="How long it still counts; -1 ends it now.",
)
@output_option
@admin_option
def expire(hmac: bytes, period_ms: int, output: str, admin: Admin) -> None:
    """End a token, as its owner or as a renewer; connections that are open stay open."""

    async def work() -> int:
        async with admin:
            return await admin.expire_delegation_token(hmac, period_ms)

    _print_expiry(run_client(work()), output)


@token.command(
    examples=[
        "floodmark token describe",
        "floodmark token describe --owner-principal User:bob -o json",
    ]
)
@click.option(
    "--owner-principal",
    "owners",
    multiple=True,
    callback=_check_principals,
    help="Only tokens that this principal owns or may renew.",
)
@output_option
@admin_option
def describe(owners: tuple[str, ...], output: str, admin: Admin) -> None:
    """List tokens with their secrets: yours, and those that you have a right to see."""

    async def work() -> list[TokenDescription]:
        async with admin:
            return await admin.describe_delegation_tokens(owners or None)

    found = run_client(work())
    if output == JSON:
        print_json([_document(one) for one in found])
    else:
        _print(found)


def _print(tokens: list[TokenDescription]) -> None:
    print_table(
        COLUMNS,
        [
            [
                one.token_id,
                one.password,
                one.owner,
                one.requester,
                one.renewers,
                *map(_time, (one.issue_ms, one.expiry_ms, one.max_ms)),
            ]
            for one in tokens
        ],
    )


def _print_expiry(expiry_ms: int, output: str) -> None:
    if output == JSON:
        print_json({"expiry": _time(expiry_ms)})
    else:
        click.echo(f"the token is valid until {_time(expiry_ms)}")


def _document(one: TokenDescription) -> dict[str, object]:
    return {
        "token_id": one.token_id,
        "hmac": one.password,
        "owner": one.owner,
        "requester": one.requester,
        "renewers": list(one.renewers),
        "issued": _time(one.issue_ms),
        "expiry": _time(one.expiry_ms),
        "max": _time(one.max_ms),
    }


def _time(time_ms: int) -> str:
    """The last second that Python knows stands for the later ones."""
    return datetime.fromtimestamp(min(time_ms // 1000, _LAST_S), UTC).isoformat(timespec="seconds")
