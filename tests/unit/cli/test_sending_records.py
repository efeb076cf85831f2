"""What `produce` refuses before it sends, and what it says of records that the broker refuses."""

import os
import re
import subprocess
import sys

import pytest

from floodmark.testing.broker_thread import BrokerThread

from .conftest import Cli


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"key": "a", "vlaue": "v"}', "unknown field vlaue (did you mean value?)"),
        (b'{"kee": "a", "value": "v"}', "unknown field kee (did you mean key?)"),
        (b'{"key": "a"}', "value is missing"),
        (b'{"key": "a", "value": "1", "payload": "2"}', "both value and payload"),
    ],
)
def test_a_json_line_with_a_wrong_field_is_refused_and_not_a_tombstone(
    cli: Cli, broker: BrokerThread, line: bytes, why: str
) -> None:
    cli("topic", "create", "json", "--if-not-exists")
    done = cli("produce", "json", "--json", stdin=line)
    assert done.code == 1
    assert why in done.err
    assert cli("consume", "json", "--from-beginning").out == ""


def test_a_wrong_line_is_named_by_number_and_what_came_before_it_is_sent(cli: Cli) -> None:
    done = cli("produce", "lines", "--json", stdin=b'{"value": 1}\n{"value": 2}\n{"vale": 3}\n')
    assert done.code == 1
    assert 'record 3: not a JSON record: {"vale": 3}; the 2 before it were sent' in done.err
    assert cli("consume", "lines", "--from-beginning").out == "1\n2\n"


def test_a_null_value_is_a_tombstone(cli: Cli) -> None:
    assert cli("produce", "tombs", "--json", stdin=b'{"key": "a", "value": null}').code == 0
    assert '"value": null' in cli("consume", "tombs", "--from-beginning", "-o", "json").out


def test_what_consume_and_cat_print_as_json_can_be_sent_on(cli: Cli) -> None:
    given = b'{"key": "a", "value": "v", "timestamp": 1700000000000, "headers": [["h", "x"]]}'
    assert cli("produce", "first", "--json", stdin=given).code == 0
    for command in (
        ["consume", "first", "--last", "1", "-o", "json"],
        ["cat", "-C", "-q", "-e", "-J", "-t", "first"],
    ):
        printed = cli(*command).out
        assert cli("produce", "second", "--json", stdin=printed.encode()).code == 0
        copied = cli("consume", "second", "--last", "1", "-F", "%k %s %T %h")
        assert copied.out == "a v 1700000000000 h=x"


def test_a_record_that_needs_a_key_says_so(cli: Cli, broker: BrokerThread) -> None:
    broker.create_topic("compacted", configs={"cleanup.policy": "compact"})
    done = cli("produce", "compacted", stdin=b"no key\n")
    assert done.code == 1
    assert re.search("without (a )?key", done.err)
    assert "try: give every record a key, with --key or --key-separator" in done.err


def test_options_for_lines_do_not_go_with_json(cli: Cli) -> None:
    done = cli("produce", "t", "--json", "-k", "key", stdin=b'{"value": 1}')
    assert done.code == 2
    assert "drop --key" in done.err


@pytest.mark.parametrize("arguments", ["produce kept <&-", "consume kept --from-beginning >&-"])
def test_a_closed_standard_stream_is_like_dev_null(cli: Cli, arguments: str) -> None:
    assert cli("produce", "kept", stdin=b"x\n").code == 0
    command = f"{sys.executable} -m floodmark {arguments}"
    done = subprocess.run(
        ["sh", "-c", command], check=False, stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_record_above_the_clients_limit_is_named_and_so_is_the_limit(cli: Cli) -> None:
    limit = ["-X", "max.request.size=1000"]
    done = cli("produce", "limited", *limit, stdin=b"a\n" + b"x" * 2000 + b"\nb\n")
    assert done.code == 1
    assert "record 2: the record takes 2016 bytes" in done.err
    assert "; the one before it was sent" in done.err
    assert "try: send smaller records, or raise the client's limit: -X max.request" in done.err
    assert cli("consume", "limited", "--from-beginning").out == "a\n"


def test_records_that_the_broker_refuses_are_counted(cli: Cli, broker: BrokerThread) -> None:
    broker.create_topic("small", configs={"max.message.bytes": "1000"})
    done = cli("produce", "small", stdin=b"a\n" + b"x" * 2000 + b"\nb\n")
    assert done.code == 1
    assert "Error: record 2 was not delivered\n  why: the batch has 20" in done.err
    assert "raise max.message.bytes of the topic" in done.err
    big = b"x" * 2000 + b"\n"
    assert "2 of 3 records were not delivered, beginning with record 1\n" in (
        cli("produce", "small", stdin=big + big + b"c\n").err
    )


def test_a_transactional_id_is_refused_before_anything_is_sent(cli: Cli) -> None:
    for command in (["produce", "never"], ["cat", "-P", "-t", "never"]):
        done = cli(*command, "-X", "transactional.id=a", stdin=b"x\n")
        assert done.code == 1
        assert "without a transaction, but transactional.id is set" in done.err
    assert "never" not in cli("topic", "list").out


def test_bytes_of_the_command_line_that_are_no_text_are_sent_as_they_are(cli: Cli) -> None:
    key = os.fsdecode(b"\xff")
    assert cli("produce", "bytes", "-k", key, "-H", f"h={key}", stdin=b"x\n").code == 0
    printed = cli("consume", "bytes", "--from-beginning", "-o", "json").out
    assert '"key": {"base64": "/w=="}' in printed
    assert cli("consume", "bytes", "--from-beginning", "-F", f"{key}%s").code == 0


def test_a_partition_that_the_copy_of_a_topic_lacks_can_be_added(cli: Cli) -> None:
    cli("topic", "create", "narrow", "-p", "1")
    done = cli("produce", "narrow", "--json", stdin=b'{"value": "x", "partition": 2}')
    assert "topic narrow has no partition 2, only 0 to 0" in done.err
    assert "add partitions: `floodmark topic alter TOPIC -p 6`" in done.err
