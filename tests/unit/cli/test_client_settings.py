"""Client settings from -X, --command-config and profiles: all of them count, or it is an error."""

from pathlib import Path

import pytest

from floodmark.cli.errors import CliError
from floodmark.cli.target import Target, client_settings
from floodmark.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from floodmark.testing.broker_thread import BrokerThread

from .conftest import Cli

REFUSED = "invalid client settings"


def end_offset(cli: Cli, topic: str) -> str:
    return cli("topic", "describe", topic).out.removesuffix("in sync\n").split()[-1]


@pytest.mark.parametrize(
    "setting",
    [
        "security.protocol=TLS",
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        "no.such=1",
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused_and_nothing_is_sent(
    cli: Cli, broker: BrokerThread, tmp_path: Path, setting: str
) -> None:
    cli("topic", "create", "plain", "--if-not-exists")
    file = tmp_path / "client.properties"
    file.write_text(f"{setting}\n")
    name = setting.partition("=")[0]
    for options in (["-X", setting], ["--command-config", str(file)]):
        done = cli("produce", "plain", *options, stdin=b"a secret\n")
        assert done.code == 1
        assert REFUSED in done.err
        assert name in done.err
        assert "try: " in done.err
    assert end_offset(cli, "plain") == "0"
    for command in (
        ["topic", "list", "--command-config", str(file)],
        ["consume", "plain", "-X", setting, "--from-beginning"],
        ["cat", "-L", "-X", setting],
        ["cat", "-P", "-t", "plain", "-F", str(file)],
        ["bench", "produce", "-X", setting],
        ["profile", "create", "p", "-X", setting],
    ):
        assert REFUSED in cli(*command).err, command


def test_a_profile_with_such_a_setting_is_refused(cli: Cli, tmp_path: Path) -> None:
    assert cli("profile", "create", "p").code == 0
    path = Path(cli("profile", "show", "p").out.split()[1])
    path.write_text(path.read_text() + "security.protocol=SASL_SSL\n")
    assert REFUSED in cli("topic", "list", "--profile", "p").err
    assert REFUSED in cli("profile", "use", "p").err
    assert cli("topic", "list").code == 0


def test_settings_that_ask_for_what_is_so_anyway_are_accepted(cli: Cli) -> None:
    plain = ["-X", "security.protocol=PLAINTEXT", "-X", "ssl.truststore.type=PEM"]
    assert cli("produce", "so", *plain, stdin=b"a\n").code == 0
    assert cli("consume", "so", "-X", "group.protocol=classic", "--last", "1").out == "a\n"


def test_a_misspelt_name_gets_a_suggestion(cli: Cli) -> None:
    assert "lingr.ms (did you mean linger.ms?)" in cli("produce", "t", "-X", "lingr.ms=1").err


def test_a_setting_of_the_other_client_is_refused_as_an_option(cli: Cli) -> None:
    done = cli("consume", "t", "-X", "linger.ms=1")
    assert "linger.ms (a setting of a producer)" in done.err


def test_files_serve_every_kind_of_client() -> None:
    shared = {"linger.ms": "7", "fetch.min.bytes": "8", "client.id": "me"}
    assert client_settings(ProducerSettings, shared, {}).linger_ms == 7
    assert client_settings(ConsumerSettings, shared, {}).fetch_min_bytes == 8
    assert client_settings(ClientSettings, shared, {}).client_id == "me"


def test_an_option_may_ask_for_plaintext_where_a_file_asks_for_more() -> None:
    shared = {"security.protocol": "SSL", "ssl.truststore.location": "ca.pem"}
    assert client_settings(ClientSettings, shared, {}).security_protocol == "SSL"
    plain = client_settings(ClientSettings, shared, {"security.protocol": "PLAINTEXT"})
    assert plain.security_protocol == "PLAINTEXT"


def test_the_parts_of_security_may_come_from_a_file_and_from_options() -> None:
    shared = {"sasl.username": "alice", "ssl.truststore.type": "PEM"}
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": "x"}
    settings = client_settings(ProducerSettings, shared, given)
    assert (settings.login.name, settings.login.password) == ("alice", "x")
    with pytest.raises(CliError):
        client_settings(ProducerSettings, shared, {})


def test_options_win_over_files() -> None:
    target = Target(None, "default:1", {"linger.ms": "7"})
    address, settings = target.resolve(ProducerSettings, {"linger.ms": "9"})
    assert (address, settings.linger_ms) == ("default:1", 9)


def test_librdkafkas_names_mean_the_same() -> None:
    target = Target(None, "default:1")
    given = {"queue.buffering.max.ms": "9", "metadata.broker.list": "there:2"}
    address, settings = target.resolve(ProducerSettings, given)
    assert (address, settings.linger_ms) == ("there:2", 9)
