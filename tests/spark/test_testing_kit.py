"""The test kit for pipelines, with the example of docs/testing.md and the template's own test."""

import ast
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring.template import write_template
from floodmark.testing import Broker
from floodmark.testing.pipeline import PipelineUnderTest, Record

HOUSE = Path(__file__).parents[2]
SHOP = """
from pyspark.sql import functions as F
from floodmark.pipeline import Pipeline

pipeline = Pipeline("shop")
pipeline.source(
    "orders",
    topic="orders",
    schema="order_id STRING NOT NULL, product STRING, at TIMESTAMP",
    watermark=("at", "10 seconds"),
    dead_letters="orders-dead",
)
pipeline.lookup("products", topic="products", key="product", schema="product STRING, price DOUBLE")


@pipeline.table()
def priced(orders, products):
    return orders.join(products, "product", "left").select("order_id", "price")


@pipeline.sink(topic="per-minute", key="product")
def per_minute(orders):
    return orders.groupBy(F.window("at", "1 minute"), "product").count()
"""


@pytest.fixture(scope="session")
def floodmark_spark(spark: SparkSession) -> SparkSession:
    """The session of this suite, rather than a second one."""
    return spark


def test_two_pipelines_of_one_test_may_read_the_same_topic(
    floodmark: Broker, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    unused = cast(SparkSession, None)
    for name in ("o1", "o2"):
        shop = PipelineUnderTest(
            tmp_path / "shop.py", broker=floodmark, spark=unused, folder=tmp_path
        )
        shop.feed("orders", [{"order_id": name, "at": "2026-01-01T12:00:00Z"}])
    assert sorted(floodmark.broker.metadata.image.topics) == ["orders", "products"]


def test_an_author_sees_rows_dead_letters_and_windows(
    floodmark_pipeline: Callable[..., PipelineUnderTest], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    shop = floodmark_pipeline(tmp_path / "shop.py")
    shop.feed("products", [{"product": "boots", "price": 49.0}, Record(None, key="gone")])
    shop.feed(
        "orders",
        [
            {"order_id": "o1", "product": "boots", "at": "2026-01-01T12:00:00Z"},
            {"order_id": "o2", "product": "coat", "at": "2026-01-01T12:00:30Z"},
            b"{broken",
        ],
    )
    shop.run()
    found = sorted(shop.rows("priced"), key=lambda row: row["order_id"])
    assert found == [{"order_id": "o1", "price": 49.0}, {"order_id": "o2", "price": None}]
    (letter,) = shop.dead_letters("orders")
    assert letter.value == b"{broken"
    assert letter.reason
    assert shop.rows("per_minute") == []

    # A second run goes on: this order's time completes the first minute.
    shop.feed("orders", [{"order_id": "o3", "product": "boots", "at": "2026-01-01T12:10:00Z"}])
    shop.run()
    assert {name: row["count"] for name, row in shop.latest("per_minute").items()} == {
        "boots": 1,
        "coat": 1,
    }
    assert len(shop.dead_letters("orders")) == 1
    with pytest.raises(ValueError, match="there is no output nothing: there are priced, per_min"):
        shop.rows("nothing")


def test_the_examples_of_the_page_and_the_templates_own_test_pass(
    floodmark: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_template(tmp_path / "words")
    examples = _examples("testing.md")
    assert len(examples) == 2
    written = (folder / "test_words.py").read_text(encoding="utf-8")
    # The page shows the same test, without its docstring and with one comment more.
    assert _code(written) == _code(examples[0])
    monkeypatch.chdir(HOUSE)
    for number, example in enumerate(examples):
        names: dict[str, Any] = {"__file__": str(folder / "test_words.py")}
        exec(example, names)
        (test,) = [value for name, value in names.items() if name.startswith("test_")]
        place = tmp_path / str(number)
        place.mkdir()
        test(partial(PipelineUnderTest, broker=floodmark, spark=spark, folder=place))


def test_the_sink_that_the_tutorial_adds_and_its_test_work(
    floodmark: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_template(tmp_path / "words")
    sink, example = _examples("pipelines.md")
    with (folder / "pipeline.py").open("a") as file:
        file.write(sink)
    names: dict[str, Any] = {"HERE": folder}
    exec(example, names)
    place = tmp_path / "place"
    place.mkdir()
    run = partial(PipelineUnderTest, broker=floodmark, spark=spark, folder=place)
    names["test_the_ledger_has_every_word"](run, tmp_path)


def _examples(page: str) -> list[str]:
    text = (HOUSE / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def _code(text: str) -> str:
    tree = ast.parse(text)
    if ast.get_docstring(tree):
        tree.body.pop(0)
    return ast.dump(tree)
