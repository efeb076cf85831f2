"""Columns are Arrow's: where the extra `spark` is not installed, what needs it is left out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pyarrow") else ["test_columns.py", "test_encoding.py"]
