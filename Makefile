# Every target sets up what it needs: a virtual environment in .venv, with uv where there is one.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest
# Two processes, each with a Spark and a broker of its own, take whole files in the given order.
BY_FILE := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: setup run test test-core test-flushed test-clients test-conformance test-crash downloads check explore soak bench bench-coordinators bench-services bench-spark demo test-services test-spark wheel conformance fuzz docs clean

# Bytecode, too: where Python may not write it by itself, every start would compile anew (a third of it).
setup: .venv/ready
	@$(BIN)/python -m compileall -q src

# $(call install,EXTRAS): the package itself, editable, with these extras.
comma := ,
define install
	@echo 'installing what this needs into .venv: up to a minute, with PySpark some minutes'
	@test -x $(BIN)/python || { command -v uv >/dev/null && uv venv -q .venv || $(PYTHON) -m venv .venv; }
	@if command -v uv >/dev/null; then uv pip install -q --compile-bytecode -p .venv -e '.[$(1)]'; \
	else $(BIN)/python -m pip install -q -e '.[$(1)]'; fi
	@touch $@
endef

.venv/ready: pyproject.toml
	$(call install,dev)

# PySpark is some 400 MB, so only what needs it asks for it.
.venv/spark: .venv/ready
	$(call install,dev$(comma)dev-spark$(comma)spark)

.venv/docs: .venv/ready
	$(call install,dev$(comma)docs)

run: setup
	$(BIN)/floodmark up

# Needs no other toolchain than Python; about eight minutes on two cores.
test: test-core
	$(PYTEST) -q -m 'not soak' tests/crash tests/fuzz

# The same without crashes and fuzz, which test-crash and fuzz run at length; about five minutes.
test-core: setup
	$(PYTEST) -q -n 2 tests/unit tests/properties tests/simulation tests/regressions tests/clients/python

# The same with every write synced before it is acknowledged: coordinators wait for their records as
# they do with followers, the cheapest rehearsal of a cluster.
test-flushed: export FLOODMARK_TEST_SETTINGS = log.flush.interval.messages=1
test-flushed: test

# Real clients in other languages, and Kafka's own tools: wants mvn, go, npm and kcat.
test-clients: setup
	$(PYTEST) -q -n 2 -m 'not soak' --ignore=tests/clients/python tests/clients

# 100 rounds of kill -9 under idempotent load, 30 under exactly-once load, 8 in the middle of compaction,
# and 60 in a cluster of three on either store; each fault of the network, the disk and the clock twice.
test-crash: setup
	FLOODMARK_CRASH_ROUNDS=100 FLOODMARK_EOS_ROUNDS=30 FLOODMARK_CLUSTER_ROUNDS=60 FLOODMARK_FAULT_ROUNDS=2 $(PYTEST) -q -n 2 --dist worksteal -m 'not soak' --timeout=900 tests/crash

# Pipelines on real Spark, against our broker and the same against Apache Kafka: wants java, mvn and postgresql.
# With PySpark installed, test-core runs tests/unit/pipeline.
test-spark: .venv/spark
	$(PYTEST) -q $(BY_FILE) -m 'not soak' tests/spark
	FLOODMARK_TEST_TARGET=kafka $(PYTEST) -q $(BY_FILE) -m 'not soak' -k 'not template' tests/spark/test_pipelines.py tests/spark/test_streams.py

# Real Dubbo consumers in Java and Go over a real ZooKeeper, in a network namespace: wants java, mvn, go, ip.
test-services: .venv/spark
	$(PYTEST) -q -n 3 --dist worksteal -m 'not soak' tests/service

# A broker, a stream of orders, a pipeline and its results on the screen; ends by itself.
demo: .venv/spark
	$(BIN)/floodmark demo

# Fresh seeds for everything that the gate runs with fixed ones; prints them, stops at a failure.
MINUTES ?= 20
explore: setup
	FLOODMARK_EOS_CLUSTER=1 $(BIN)/python tools/explore.py --minutes $(MINUTES)

# Hours: thousands of crashes, millions of hostile requests, many more simulated schedules.
soak: .venv/spark
	FLOODMARK_CRASH_ROUNDS=3000 FLOODMARK_EOS_ROUNDS=1000 FLOODMARK_EOS_CLUSTER=1 FLOODMARK_COMPACTION_KILLS=200 FLOODMARK_CLUSTER_ROUNDS=1000 FLOODMARK_FAULT_ROUNDS=100 \
	FLOODMARK_FUZZ_REQUESTS=2000000 FLOODMARK_SIM_SCHEDULES=20000 $(PYTEST) -q --timeout=0 tests/crash tests/fuzz tests/simulation
	FLOODMARK_SPARK_KILLS=20 FLOODMARK_SPARK_OUTAGES=10 FLOODMARK_SPARK_OUTAGE_SECONDS=60 FLOODMARK_SPARK_PARTITION_MB=10000 \
	$(PYTEST) -q --timeout=0 tests/spark/test_exactly_once.py tests/spark/test_outages.py tests/spark/test_memory.py
	FLOODMARK_CLICKSTREAM_ROUNDS=10 FLOODMARK_CLICKSTREAM_S3=1 $(PYTEST) -q --timeout=0 tests/spark/test_clickstream.py
	$(PYTEST) -q -m soak tests/clients/java/test_quota_rates.py

# A structure-aware fuzz run of 200,000 requests against one broker, watching its memory; then 2,000
# simulated schedules of a cluster.
fuzz: setup
	FLOODMARK_FUZZ_REQUESTS=200000 $(PYTEST) -q --timeout=1500 tests/fuzz
	FLOODMARK_SIM_SCHEDULES=2000 $(PYTEST) -q -n 2 --timeout=600 tests/simulation/test_schedules.py

# Other projects' own tests of a broker: franz-go's suite, Kafka's verifiers, Streams and Connect.
test-conformance: setup
	$(PYTEST) -q -n 2 --dist worksteal -m 'not soak' tests/conformance

# The same whole: franz-go's suite at the scale its authors run it, and Streams' own system test.
conformance: setup
	FLOODMARK_CONFORMANCE_RECORDS=50000 $(PYTEST) -q -s tests/conformance

# Jars and Go programs that tests want, several at once; without it each test fetches its own.
downloads: .venv/spark
	PYTHONPATH=tests $(BIN)/python -m kit.downloads

check: .venv/spark
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy
	$(BIN)/lint-imports

# Brings up Apache Kafka 4.3.0 beside us and runs the same load on both: see bench/README.md.
bench: setup
	$(BIN)/python bench/run.py

# The same for rebalances, commits, transactions and compaction.
bench-coordinators: setup
	$(BIN)/python bench/coordinators.py

# Our data source and Spark's own Kafka connector in turn, in one session.
bench-spark: .venv/spark
	$(BIN)/python bench/spark_pipelines.py --write

# The docs as a site in site/, with the API reference from the docstrings.
docs: .venv/docs
	$(BIN)/mkdocs build -q

# A Java provider and ours in turn, under the same Java consumer with 16 threads: wants java and mvn.
bench-services: setup
	$(BIN)/python bench/services.py

wheel: setup
	@if command -v uv >/dev/null; then uv build -q --wheel -o dist; \
	else $(BIN)/python -m pip wheel -q --no-deps -w dist .; fi
	@ls dist/*.whl

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache
