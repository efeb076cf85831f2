"""The tests of this folder need the extra `spark`; `make test` leaves them out without it."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]
