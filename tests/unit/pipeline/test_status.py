"""What is shown of a pipeline when nobody can say how far behind it is."""

import asyncio
from pathlib import Path

from floodmark.pipeline.authoring.checkpoints import Checkpoint
from floodmark.pipeline.authoring.status import status_of
from kit.process import free_port


def written(folder: Path, output: str, batch: int) -> None:
    """A query's folder as Spark leaves it after a batch."""
    for name, text in {
        "metadata": "{}",
        f"offsets/{batch}": 'v1\n{}\n{"orders":{"0":7}}\n',
        f"commits/{batch}": "v1\n{}\n",
    }.items():
        path = folder / output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_checkpoint_is_shown_without_the_lag_when_no_broker_answers(tmp_path: Path) -> None:
    written(tmp_path, "revenue", 3)
    written(tmp_path, "table", 5)
    checkpoint = Checkpoint(tmp_path, "shop", "id", f"127.0.0.1:{free_port()}")
    shown = asyncio.run(status_of(checkpoint))
    assert [(row.output, row.batch, row.lag, row.group) for row in shown] == [
        ("revenue", 3, None, "shop.revenue"),
        ("table", 5, None, "shop.table"),
    ]
