"""`floodmark log dump` on files that are whole, and on files that are not."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from floodmark.cli.main import run
from floodmark.records.compression import Compression
from floodmark.records.record import Record, encode_batch

SEGMENT = "00000000000000000100.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition's folder with two batches that begin at offset 100."""
    records = [Record(0, 1_000 + n, b"k%d" % n, b"v%d" % n, [("h", b"x")]) for n in range(3)]
    first = encode_batch(records, base_offset=100, compression=Compression.LZ4, producer_id=5)
    second = encode_batch(records[:1], base_offset=103)
    (tmp_path / SEGMENT).write_bytes(first + second)
    (tmp_path / "00000000000000000100.index").write_bytes(struct.pack(">iiii", 3, len(first), 0, 0))
    (tmp_path / "00000000000000000100.timeindex").write_bytes(struct.pack(">qi", 1_002, 2))
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\n4 100\n")
    return tmp_path


def dump(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> dict[str, list[dict[str, Any]]]:
    run(["log", "dump", "-o", "json", *arguments])
    documents = json.loads(capsys.readouterr().out)
    return {Path(document["file"]).name: document["entries"] for document in documents}


def test_a_folder_is_dumped_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dumped = dump([str(folder)], capsys)
    first, second = dumped[SEGMENT]
    assert (first["base_offset"], first["last_offset"], first["compression"]) == (100, 102, "lz4")
    assert (second["base_offset"], second["producer_id"]) == (103, -1)
    assert dumped["00000000000000000100.index"] == [{"offset": 103, "position": second["position"]}]
    assert dumped["00000000000000000100.timeindex"] == [{"timestamp": 1_002, "offset": 102}]
    assert dumped["leader-epoch-checkpoint"] == [{"leader_epoch": 4, "start_offset": 100}]


def test_deep_shows_the_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches = dump(["--deep", str(folder / SEGMENT)], capsys)[SEGMENT]
    assert [record["value"] for batch in batches for record in batch["records"]] == [
        "v0",
        "v1",
        "v2",
        "v0",
    ]
    assert run(["log", "dump", "--deep", str(folder / SEGMENT)]) == 0
    assert "| 101  1001  key k1  value v1  h=x" in capsys.readouterr().out


def test_a_flipped_bit_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray((folder / SEGMENT).read_bytes())
    data[80] ^= 1
    (folder / SEGMENT).write_bytes(data)
    assert run(["log", "dump", str(folder / SEGMENT)]) == 1
    captured = capsys.readouterr()
    assert "position 0 (offset 100) has a wrong checksum" in captured.out
    assert "1 of 1 files are corrupt" in captured.err


@pytest.mark.parametrize("kept", [1, 61, 100])
def test_a_torn_tail_is_found(folder: Path, capsys: pytest.CaptureFixture[str], kept: int) -> None:
    data = (folder / SEGMENT).read_bytes()
    (folder / SEGMENT).write_bytes(data[:kept])
    assert run(["log", "dump", str(folder / SEGMENT)]) == 1
    assert "broken:" in capsys.readouterr().out


def test_an_index_that_falls_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "00000000000000000100.index"
    path.write_bytes(struct.pack(">iiii", 9, 500, 3, 600))
    assert run(["log", "dump", str(path)]) == 1
    assert "follows a larger one" in capsys.readouterr().out
