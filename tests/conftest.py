"""Makes `kit` importable from every test (importmode=importlib adds no folder by itself), and fixes
the chance in them."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from kit.seeds import VARIABLE, is_exploring, seed, set_up_hypothesis

set_up_hypothesis()

# A shell that starts the tests in the background, or nohup, lets them ignore Ctrl-C or the end of
# the terminal, and with them every process that they start and mean to signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_report_header() -> str:
    return f"{VARIABLE}={seed()}" if is_exploring() else f"fixed seeds; {VARIABLE}=N draws others"
