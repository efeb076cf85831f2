"""A checkpoint as a killed driver leaves it: a batch that was written, but that Spark forgot."""

from pathlib import Path


def forget_last_commit(output: Path) -> None:
    """As if the driver was killed after the write, before Spark knew of it."""
    commits = output / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
