"""Every example of docs/testing.md runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_page_pass(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(examples) > 8
    for number, example in enumerate(examples):
        (tmp_path / f"test_example_{number}.py").write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:asyncio", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
