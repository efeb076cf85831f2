"""A packed environment works where it is unpacked, without the one it came from."""

import os
import subprocess
import sysconfig
import tarfile
from pathlib import Path

import pytest

from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.packing import write_archive
from floodmark.pipeline.spark.submitting import Submission, example_lines
from floodmark.pipeline.spark.worker_errors import worker_advice

# All but Floodmark and what its vocabulary needs, to be quick.
OTHERS = ("[!f]*", "f[!l]*")


def test_an_unpacked_environment_has_its_own_floodmark_and_the_pipeline(tmp_path: Path) -> None:
    pipeline = tmp_path / "words"
    (pipeline / ".floodmark" / "words").mkdir(parents=True)
    (pipeline / ".floodmark" / "words" / "pipeline.json").touch()
    (pipeline / "pipeline.py").write_text("# mine\n")
    size = write_archive(tmp_path / "words.tar.gz", pipeline, OTHERS)
    assert size == (tmp_path / "words.tar.gz").stat().st_size
    home = tmp_path / "environment"
    with tarfile.open(tmp_path / "words.tar.gz") as archive:
        archive.extractall(home, filter="fully_trusted")
    assert [p.name for p in (home / "pipeline").rglob("*")] == ["pipeline.py"]
    script = "import floodmark.pipeline.errors as e, sys; print(e.__file__, sys.prefix)"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [str(home / "bin" / "python"), "-c", script]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, env=clean, timeout=60
    )
    file, prefix = said.stdout.split()
    assert Path(file).is_relative_to(home)
    assert prefix == str(home)


def test_a_link_that_cannot_be_packed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.pth").write_text("import __editable___mine_finder; install()\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(PipelineError, match=r"mine\.pth links to a package .* without -e"):
        write_archive(tmp_path / "out" / "a.tar.gz", tmp_path)


def test_what_a_worker_of_this_environment_unpacked_is_not_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    for name in ("conf.py", "work/app-1/0/words.tar.gz", "logs/master.out"):
        file = packages / "pyspark" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(packages))
    write_archive(tmp_path / "words.tar.gz", tmp_path / "words")
    with tarfile.open(tmp_path / "words.tar.gz") as archive:
        packed = [name for name in archive.getnames() if "/pyspark/" in name]
    assert [Path(name).name for name in packed] == ["conf.py"]


def test_each_kind_of_cluster_gets_its_line() -> None:
    submission = Submission("w.tar.gz", Path("/my/words"), arguments=["--once"])
    lines = example_lines(submission, Path("dist"))
    assert lines["standalone"].startswith("cd dist && spark-submit --master spark://HOST:7077 ")
    assert "--archives 'w.tar.gz#environment'" in lines["standalone"]
    # A driver on this machine reads the file here, one in the cluster that of the archive.
    assert lines["standalone"].endswith("main.py pipeline run /my/words --once")
    assert "--deploy-mode client" in lines["standalone"]
    assert "--master yarn --deploy-mode cluster" in lines["YARN"]
    assert lines["YARN"].endswith("main.py pipeline run environment/pipeline --once")
    assert "s3a://BUCKET/pipelines/main.py pipeline run" in lines["Kubernetes"]
    with pytest.raises(PipelineError, match="use --deploy-mode client"):
        submission.command("spark://h:1", "cluster")


def test_a_worker_without_floodmark_is_told_apart_from_other_failures() -> None:
    text = "Traceback: ModuleNotFoundError: No module named 'floodmark'"
    assert "floodmark pipeline package" in worker_advice(text)
    assert worker_advice("ZeroDivisionError: division by zero") == ""
