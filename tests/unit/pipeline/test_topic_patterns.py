"""An expression of Java chooses the topics that it chooses in Spark's own connector."""

import pytest

from floodmark.pipeline.datasource.options import parse_read_options
from floodmark.pipeline.datasource.topic_patterns import compile_pattern
from floodmark.pipeline.errors import OptionError

NAMES = ["orders", "orders-eu", "orders.1", "ORDERS", "items_7", "a.b", "aXb"]


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        # The same in both languages.
        ("orders.*", ["orders", "orders-eu", "orders.1"]),
        ("^(?:orders|items_\\d)$", ["orders", "items_7"]),
        ("(?i)^orders$", ["orders", "ORDERS"]),
        ("^a\\.b$", ["a.b"]),
        ("^[^a-z]+$", ["ORDERS"]),
        ("^a[.X]b$", ["a.b", "aXb"]),
        ("^(.)[a-z]*\\1$", []),
        # Only Java has these: Python fails, or reads them as something else.
        ("^[a-z&&[^i]]+$", ["orders"]),
        ("^[a-m[n-z]]+$", ["orders"]),
        ("^[a-z&&[or]&&[r]]", []),
        ("^[a-z_0-9&&[^o]]+$", ["items_7"]),
        ("^\\p{Lower}+$", ["orders"]),
        ("^\\p{javaUpperCase}+$", ["ORDERS"]),
        ("^\\P{L}", []),
        ("^\\p{IsAlphabetic}+\\p{Punct}eu$", ["orders-eu"]),
        ("^\\Qa.b\\E$", ["a.b"]),
        ("\\Qa.b", ["a.b"]),
        ("^(?<first>o)rders\\z", ["orders"]),
        ("^(?<first>i)tems_7$|^(?<second>o)rder\\S$", ["items_7", "orders"]),
        ("^orders\\h", []),
        ("^\\x{6f}rders$", ["orders"]),
        ("^\\u006frders\\x2deu$", ["orders-eu"]),
        ("^[\\w&&[^\\d]]++$", ["orders", "ORDERS", "aXb"]),
        ("^[\\Q.-\\Ea]+b$", ["a.b"]),
        ("^(?i:[a-z&&[^p]]+)$", ["orders", "ORDERS", "aXb"]),
        ("(?i)^[^o]", ["items_7", "a.b", "aXb"]),
    ],
)
def test_an_expression_of_java_chooses_its_topics(pattern: str, chosen: list[str]) -> None:
    expression = compile_pattern(pattern)
    assert sorted(name for name in NAMES if expression.search(name)) == sorted(chosen)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("orders(", "missing \\)"),
        ("\\p{Klingon}", "unknown property Klingon"),
        ("a(?i)b", "flags must be at the start"),
        ("(?x)a b", "flag x is not supported"),
        ("[a-z", "a class is not closed"),
        ("\\Gorders", "\\\\G is not supported"),
        ("orders\\", "a backslash at the end"),
        ("(?#comment)a", "unknown kind of group"),
        ("[z-a]", "z-a is no range"),
        ("\\p{Lower", "missing }"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_runs(pattern: str, message: str) -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribePattern": pattern}
    with pytest.raises(OptionError, match=message):
        parse_read_options(options, streaming=True)
