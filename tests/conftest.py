"""Makes `kit` importable from every test: importmode=importlib adds no folder by itself."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
