"""Makes `kit` importable from every test: importmode=importlib adds no folder by itself."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# A shell that starts the tests in the background lets them ignore Ctrl-C, and with them every
# process that they start and mean to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
