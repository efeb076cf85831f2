"""`floodmark pipeline run`: runs one or several pipelines in one Spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodmark.cli.help import Command
from floodmark.cli.pipeline_kit import (
    Show,
    SparkOptions,
    checkpoint_option,
    checkpoints_option,
    file_options,
    session_of,
    shown,
    stopped_by_signals,
    told,
)
from floodmark.cli.pipeline_plans import Planned, PlanOptions
from floodmark.pipeline.authoring.checkpoints import Checkpoint, held_checkpoint
from floodmark.pipeline.authoring.loading import same_modules
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import open_folder
from floodmark.pipeline.spark.hadoop_paths import is_remote
from floodmark.pipeline.spark.surroundings import below_submitted, is_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floodmark.pipeline.authoring.metrics import PipelineMetrics
    from floodmark.pipeline.authoring.progress import OutputProgress
    from floodmark.pipeline.authoring.runner import Runner


@click.command(
    cls=Command,
    examples=[
        "floodmark pipeline run words",
        "floodmark pipeline run words --once --set window=5m",
        "floodmark pipeline run words shop --metrics-port 9405 --ui",
        "floodmark pipeline run words --checkpoints s3a://my-bucket/checkpoints",
    ],
)
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, metavar="[FILE]...")
@file_options
@click.option("--once", is_flag=True, help="Process the available records, then stop.")
@checkpoint_option
@checkpoints_option
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve Prometheus metrics on this port.",
)
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, help="Address to bind for metrics."
)
@click.option("--ui", is_flag=True, help="Serve Spark's own web UI and print its address.")
def run(
    paths: tuple[Path, ...],
    once: bool,
    metrics_port: int | None,
    metrics_host: str,
    ui: bool,
    **given: Any,
) -> None:
    """Run pipelines until Ctrl-C, or once over the available records."""
    options = PlanOptions(**given)
    if options.checkpoint is not None and len(paths) > 1:
        raise click.UsageError("--checkpoint is for one pipeline: use --checkpoints for several")
    spark = options.spark
    if ui:
        spark = replace(spark, conf={**spark.conf, "spark.ui.enabled": "true"})
    with told():
        plans = [options.plan(path) for path in paths or (Path(),)]
        _check_together(plans, paths)
        with _metrics(metrics_host, metrics_port) as metrics:
            _run(plans, spark, once, ui, metrics)
    for plan in plans:
        click.echo(
            f"pipeline {plan.pipeline.name} has stopped; it will resume from {plan.folder}",
            err=True,
        )


def _check_together(plans: Sequence[Planned], paths: Sequence[Path]) -> None:
    names = [plan.pipeline.name for plan in plans]
    for name in names:
        if names.count(name) > 1:
            raise PipelineError(f"pipeline {name} is named twice: run each of them once")
    if len(plans) > 1 and (common := same_modules(paths)):
        raise PipelineError(
            f"two of the pipelines import their own module {common}, which one process can load "
            "only once: rename one, or run them separately"
        )


def spark_plan(plans: Sequence[Planned], options: SparkOptions) -> SparkOptions:
    """One master and one set of settings for all pipelines. The command line decides conflicts.

    Under spark-submit, its own options stand above pipeline.toml.
    """
    is_free = not is_submitted(os.environ)
    masters = {plan.options.master for plan in plans if is_free} - {None}
    if options.master is None and len(masters) > 1:
        raise PipelineError(
            f"the pipelines name the masters {', '.join(sorted(map(str, masters)))}: choose one "
            "with --master, or run them separately"
        )
    conf: dict[str, str] = {}
    for plan in plans:
        of_file = below_submitted(plan.options.conf, os.environ)
        wanted = {**plan.pipeline.spark_settings, **of_file, **options.conf}
        for name, value in wanted.items():
            if conf.setdefault(name, value) != value:
                raise PipelineError(
                    f"the pipelines set {name} to {conf[name]} and {value}, but run in one Spark: "
                    f"choose with --conf {name}=..., or run them separately"
                )
    return SparkOptions(options.master or next(iter(masters), None), conf, options.log_level)


def _run(
    plans: Sequence[Planned],
    options: SparkOptions,
    once: bool,
    ui: bool,
    metrics: PipelineMetrics | None,
) -> None:
    from floodmark.pipeline.authoring.runner import Runner
    from floodmark.pipeline.spark.session import spark_session

    wanted = spark_plan(plans, options)
    with ExitStack() as stack:
        # Check before Spark starts, which takes seconds, and before anything is written.
        held = {
            plan.folder: stack.enter_context(_held(plan, None))
            for plan in plans
            if not is_remote(plan.folder)
        }
        spark = stack.enter_context(
            spark_session(
                "+".join(plan.pipeline.name for plan in plans),
                master=wanted.master,
                shuffle_partitions=plans[0].pipeline.shuffle_partitions,
                settings=wanted.conf,
                log_level=wanted.log_level,
            )
        )
        if ui:
            click.echo(f"Spark's web UI: {spark.sparkContext.uiWebUrl}", err=True)
        runs = []
        show = stack.enter_context(shown([plan.pipeline.name for plan in plans]))
        for plan in plans:
            place = held.get(plan.folder) or stack.enter_context(_held(plan, spark))
            pipeline = plan.pipeline
            session = spark
            if len(plans) > 1:
                session = session_of(spark, pipeline.shuffle_partitions)
            runner = Runner(
                session, pipeline, bootstrap_server=plan.bootstrap_server, checkpoint=place
            )
            watched = _watched(show(pipeline.name), pipeline.name, metrics)
            if metrics is not None:
                stack.enter_context(metrics.running(place))
            runs.append(Run(runner, watched, once))
        with stopped_by_signals(*(run.runner for run in runs)):
            run_together(runs)


@contextmanager
def _held(plan: Planned, spark: SparkSession | None) -> Iterator[Checkpoint]:
    folder = open_folder(plan.folder, spark)
    with held_checkpoint(folder, plan.pipeline.name, plan.bootstrap_server) as checkpoint:
        yield checkpoint


def _watched(show: Show, pipeline: str, metrics: PipelineMetrics | None) -> Show:
    if metrics is None:
        return show
    observe = metrics.observer(pipeline)

    def both(outputs: list[OutputProgress]) -> None:
        observe(outputs)
        show(outputs)

    return both


@contextmanager
def _metrics(host: str, port: int | None) -> Iterator[PipelineMetrics | None]:
    if port is None:
        yield None
        return
    from floodmark.pipeline.authoring.metrics import PipelineMetrics, served

    metrics = PipelineMetrics()
    with served(metrics, host, port) as actual:
        click.echo(f"metrics at http://{host}:{actual}/metrics", err=True)
        yield metrics


@dataclass(frozen=True)
class Run:
    runner: Runner
    show: Show
    once: bool

    def __call__(self) -> None:
        self.runner.run(once=self.once, show=self.show)


def run_together(runs: Sequence[Run]) -> None:
    """Each in its own thread, if there are several. When one fails, the others are stopped."""
    if len(runs) == 1:
        runs[0]()
        return
    failures: list[BaseException] = []
    lock = threading.Lock()

    def work(run: Run) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001
            # Reported by the thread that waits, which alone can end the command.
            with lock:
                failures.append(error)
            for other in runs:
                other.runner.stop()

    threads = [threading.Thread(target=work, args=(run,), name="pipeline") for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            # In slices, so that signals are handled meanwhile.
            thread.join(0.2)
    if failures:
        raise failures[0]
