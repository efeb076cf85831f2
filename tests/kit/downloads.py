"""Fetches the large sets of jars and builds Go programs before tests want them, several at once.

Run by `make downloads`; .ci/run does that while it checks the code. A test fetches what is missing
itself, but within its own timeout; so a failure here is only reported.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from conformance_kit.franz_go import build_suite
from kit.dubbo_go import dubbo_go_consumer
from kit.dubbo_jars import DUBBO_2, DUBBO_3, dubbo_jars
from kit.jars import KAFKA_3, KAFKA_4, client_jars, kafka_jars
from kit.s3 import s3_class_path
from kit.services_page import page_jars
from kit.spark_jars import avro_jar, connector_jars, delta_jars, driver_jars

SETS: Final[dict[str, Callable[[], object]]] = {
    "Apache Kafka 3": lambda: kafka_jars(KAFKA_3),
    "Apache Kafka 4": lambda: kafka_jars(KAFKA_4),
    "Dubbo 2": lambda: dubbo_jars(DUBBO_2),
    "Dubbo 3": lambda: dubbo_jars(DUBBO_3),
    "S3": s3_class_path,
    "Spark": lambda: (connector_jars(), avro_jar(), driver_jars(), delta_jars()),
    "Kafka's clients": lambda: (client_jars(KAFKA_3), client_jars(KAFKA_4)),
    "the page on services": page_jars,
    "dubbo-go": dubbo_go_consumer,
    "franz-go": build_suite,
}
AT_ONCE: Final = 4


def main() -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        begun = {name: threads.submit(fetch) for name, fetch in SETS.items()}
        for name, fetched in begun.items():
            problem = fetched.exception()
            if problem is not None:
                print(f"{name}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
