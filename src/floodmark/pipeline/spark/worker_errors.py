"""What to do when the Python of a cluster's workers cannot run a pipeline.

Called by `runner.py` with the text of a failed query. Spark's own message names a missing module or
file, but not the remedy.
"""

from __future__ import annotations

_PACKAGE = (
    "package this environment with `floodmark pipeline package` and run the line that it prints, "
    "or install Floodmark on every worker and name that Python in PYSPARK_PYTHON"
)
# Parts of Spark's and Python's messages, and what they mean.
_SIGNS = {
    "No module named 'floodmark": "The Python of a worker has no Floodmark",
    "No module named 'pyarrow": "The Python of a worker has no PyArrow",
    "No module named 'pandas": "The Python of a worker has no pandas",
    "PYTHON_VERSION_MISMATCH": "The Python of a worker has another version than this one",
    "Cannot run program": "A worker could not start its Python",
}


def worker_advice(text: str) -> str:
    """A sentence on its own line; empty if the workers' Python is not the cause."""
    found = next((meaning for sign, meaning in _SIGNS.items() if sign in text), None)
    return "" if found is None else f"\n{found}: {_PACKAGE}"
