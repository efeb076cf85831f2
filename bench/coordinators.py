"""Compares the coordinators and the log cleaner of Apache Kafka 4.3.0 with ours, as run.py does.

`python bench/coordinators.py [--case G2] [--target floodmark] [--rounds 3] [--scale 1] [--write]`;
README.md in this folder says what the cases are.
"""

import sys

from coordinator_cases import CASES, SETTINGS
from report import Section
from run import main

SECTION = Section(
    "## Groups, transactions and compaction",
    "What the cases do is in bench/README.md. Both brokers have "
    + ", ".join(f"`{name}={value}`" for name, value in SETTINGS.items())
    + ".\nKafka's memory in G5 is that of a JVM with a heap of 1 GiB, which it fills before it\n"
    "collects: only ours has a bound.",
)

if __name__ == "__main__":
    sys.exit(main(CASES, SECTION, SETTINGS))
