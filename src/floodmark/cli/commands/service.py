"""`floodmark service export|tables|list|call|stub`: Python objects as Dubbo services."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import F, bootstrap_option, output_option, pairs
from floodmark.cli.output import JSON, Document, print_json, print_table

if TYPE_CHECKING:
    from floodmark.pipeline.authoring.declarations import Pipeline
    from floodmark.service.interface import Interface
    from floodmark.service.provider import Export
    from floodmark.service.table import Table
    from floodmark.service.url import URL

T = TypeVar("T")

INSTALL_HINT = "pip install 'floodmark[service]'"
DEFAULT_REGISTRY = "zookeeper://127.0.0.1:2181"


def _registry_option(function: F) -> F:
    return click.option(
        "--registry",
        multiple=True,
        envvar="FLOODMARK_REGISTRY",
        default=(DEFAULT_REGISTRY,),
        show_default=True,
        help="ZooKeeper registry; may be repeated. N/A for none.",
    )(function)


@click.group(
    cls=Group,
    examples=[
        "floodmark service export orders:Orders --interface dev.shop.Orders",
        "floodmark service list",
        "floodmark service call dev.shop.Orders find 5",
    ],
)
def service() -> None:
    """Serve Python objects to Dubbo consumers, and call services.

    Requires the `service` extra. docs/services.md covers the Java side.
    """


@service.command(
    examples=[
        "floodmark service export orders:Orders --interface dev.shop.Orders",
        "floodmark service export orders:Orders --registry zookeeper://127.0.0.1:2181 --port 20881",
        "floodmark service export orders:Orders --protocol tri --version 1.0",
    ]
)
@click.argument("target", metavar="MODULE:OBJECT")
@click.option("--interface", help="Java interface. Default: from @service(...).")
@_registry_option
@click.option("--host", default="", help="Address to bind and register.")
@click.option(
    "--port", type=int, default=0, help="Port to bind [20880, tri: 50051]; -1 for a free port."
)
@click.option(
    "--protocol",
    type=click.Choice(["dubbo", "tri"]),
    default="dubbo",
    show_default=True,
    help="Protocol: Dubbo's own or Triple.",
)
@click.option("--group", help="Dubbo group.")
@click.option("--version", "service_version", help="Service version.")
@click.option("--application", default="floodmark", show_default=True, help="Provider name.")
@click.option("--set", "options", multiple=True, metavar="NAME=VALUE", help="Dubbo setting.")
def export(
    target: str,
    interface: str | None,
    registry: tuple[str, ...],
    host: str,
    port: int,
    protocol: str,
    group: str | None,
    service_version: str | None,
    application: str,
    options: tuple[str, ...],
) -> None:
    """Export an object, or an instance of a class, until Ctrl-C or SIGTERM."""
    with told():
        found = _load(target)
        exported = _created(found, target) if isinstance(found, type) else found
        given = {
            "interface": interface,
            "group": group,
            "version": service_version,
            "registry": registry,
            "host": host,
            "port": port,
            "protocol": protocol,
            "application": application,
        }
        settings = {name: value for name, value in given.items() if value is not None}
        show_log()
        _run(_serve(exported, {**pairs(options), **settings}))


async def _serve(target: object, options: Document) -> None:
    from floodmark.service.provider import Service

    running = Service(target, **options)
    with _until_stopped():
        async with running.export() as export:
            await export.exported()
            _announce(export)
            await asyncio.Event().wait()


def _announce(export: Export) -> None:
    for url in export.registered_urls or export.urls:
        click.echo(f"{export.interface.name} is served at {url.protocol}://{url.address}")
    click.echo(f"  methods: {', '.join(export.interface.methods)}")
    sys.stdout.flush()


@service.command(
    "list", examples=["floodmark service list", "floodmark service list dev.shop.Orders -o json"]
)
@click.argument("interface", required=False)
@_registry_option
@output_option
def list_services(interface: str | None, registry: tuple[str, ...], output: str) -> None:
    """List the providers of all interfaces, or of one."""
    with told():
        urls = _run(_providers(registry, interface))
    if output == JSON:
        print_json([{"url": str(url), **url.parameters, "address": url.address} for url in urls])
        return
    if not urls:
        click.echo("no providers are registered")
        return
    print_table(
        ["INTERFACE", "GROUP", "VERSION", "ADDRESS", "APPLICATION", "RELEASE"],
        [
            [
                url.interface,
                url.get("group") or None,
                url.get("version") or None,
                url.address,
                url.get("application"),
                url.get("release") or None,
            ]
            for url in urls
        ],
    )


async def _providers(registry: tuple[str, ...], interface: str | None) -> list[URL]:
    from floodmark.service.registry import Registry
    from floodmark.service.url import URL

    found: dict[str, URL] = {}
    for address in registry:
        opened = Registry(URL.parse(address))
        await opened.start()
        try:
            for name in [interface] if interface else await opened.interfaces():
                found |= {str(url): url for url in await opened.lookup(name)}
        finally:
            await opened.close()
    return sorted(found.values(), key=lambda url: (url.interface, url.address))


@service.command(
    examples=[
        "floodmark service call dev.shop.Orders find 5",
        "floodmark service call dev.shop.Orders find 5 --url dubbo://127.0.0.1:20880",
    ]
)
@click.argument("interface")
@click.argument("method")
@click.argument("arguments", nargs=-1)
@_registry_option
@click.option("--url", default="", help="Provider, bypassing the registry: dubbo://host:port/path.")
@click.option("--group", default="", help="Dubbo group.")
@click.option("--version", "service_version", default="", help="Service version.")
@click.option("--types", default="", help="Java argument types, for Java providers.")
@click.option(
    "--timeout-ms", default=5000, show_default=True, help="How long to wait for the response."
)
def call(
    interface: str,
    method: str,
    arguments: tuple[str, ...],
    registry: tuple[str, ...],
    url: str,
    group: str,
    service_version: str,
    types: str,
    timeout_ms: int,
) -> None:
    """Call a method of a service (generic invoke) and print the result as JSON.

    Arguments are JSON. Plain text needs no quotes.
    """
    options = {"url": url, "group": group, "version": service_version, "timeout_ms": timeout_ms}
    values = [_argument(text) for text in arguments]
    with told():
        wanted = [name.strip() for name in types.split(",") if name.strip()]
        result = _run(_call(interface, method, values, wanted, registry, options))
    # Imported late: it needs the service extra, and only a result needs it.
    from floodmark.cli.service_results import shown

    print_json(shown(result))


async def _call(
    interface: str,
    method: str,
    values: list[Any],
    types: list[str],
    registry: tuple[str, ...],
    options: Document,
) -> Any:
    from floodmark.service.consumer import Consumer

    async with Consumer(registry=() if options["url"] else registry) as consumer:
        reference = await consumer.generic(interface, **options)
        return await reference.invoke(method, values, types)


@service.command(
    examples=[
        "floodmark service tables",
        "floodmark service tables pipeline.py --registry zookeeper://127.0.0.1:2181",
    ]
)
@click.argument("path", type=click.Path(path_type=Path), default=Path(), metavar="[FILE]")
@click.option("--env", "environment", help="Environment in pipeline.toml.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Setting.")
@bootstrap_option
@_registry_option
@click.option("--port", type=int, default=0, help="Port to bind [20880]; -1 for a free port.")
@click.option("--application", default="floodmark", show_default=True, help="Provider name.")
def tables(
    path: Path,
    environment: str | None,
    settings: tuple[str, ...],
    bootstrap_server: str,
    registry: tuple[str, ...],
    port: int,
    application: str,
) -> None:
    """Serve a pipeline's @service.table outputs until Ctrl-C or SIGTERM."""
    from floodmark.cli.pipeline_kit import told as pipeline_told
    from floodmark.pipeline.authoring.loading import load_pipeline

    with told(), pipeline_told():
        loaded = load_pipeline(path, environment=environment, overrides=pairs(settings))
        found = tables_of(loaded)
        if not found:
            raise CliError(
                f"pipeline {loaded.name} has no table to serve",
                hint="mark a sink with @service.table(...), see docs/services.md",
            )
        options = {"registry": registry, "port": port, "application": application}
        show_log()
        _run(_serve_tables(found, bootstrap_server, options))


def tables_of(pipeline: Pipeline) -> list[Table]:
    """The tables declared by a pipeline's outputs."""
    from floodmark.service.api import declared_table
    from floodmark.service.table import Table

    found = []
    for output in pipeline.outputs.values():
        declared = declared_table(output.function)
        if declared is None:
            continue
        if output.topic is None:
            raise CliError(
                f"{output.name} does not write to a topic, so it cannot be served as a table"
            )
        found.append(
            Table(
                pipeline.text(output.topic, output.place),
                row=declared.row,
                key=output.key or "",
                interface=declared.interface,
                max_lag=declared.max_lag,
            )
        )
    return found


async def _serve_tables(found: list[Table], bootstrap: str, options: Document) -> None:
    from floodmark.service.provider import Services

    with _until_stopped():
        async with AsyncExitStack() as stack:
            services = await stack.enter_async_context(Services())
            for table in found:
                serving = table.serve(bootstrap, services=services, **options)
                served = await stack.enter_async_context(serving)
                _announce(served.export)
            await asyncio.Event().wait()


@contextmanager
def _until_stopped() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the block, also while it still starts: a delay, a registry
    or a topic may take long. Those that follow do not interrupt the orderly end.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        if not is_stopped:
            is_stopped = True
            click.echo("stopping after the calls in progress", err=True)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    except asyncio.CancelledError:
        if not is_stopped:
            raise


@service.command(
    examples=[
        "floodmark service stub orders:Orders --java src/main/java",
        "floodmark service stub orders:Orders --go orders.go",
    ]
)
@click.argument("target", metavar="MODULE:CLASS")
@click.option("--interface", help="Java interface. Default: from @service(...).")
@click.option("--java", type=click.Path(path_type=Path), help="Folder for Java sources.")
@click.option("--go", type=click.Path(path_type=Path), help="File for Go source.")
def stub(target: str, interface: str | None, java: Path | None, go: Path | None) -> None:
    """Generate the sources that Java or Go consumers compile against."""
    if java is None and go is None:
        raise click.UsageError("name --java FOLDER, --go FILE or both")
    from floodmark.service.stub import go_source, java_sources

    with told():
        found = _interface(_load(target), interface)
        written: list[Path] = []
        if java is not None:
            written += [_write(java / p, text) for p, text in java_sources(found).items()]
        if go is not None:
            written.append(_write(go, go_source(found, go.absolute().parent.name)))
    for path in written:
        click.echo(path)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _interface(found: Any, name: str | None) -> Interface:
    from floodmark.service.api import settings_of
    from floodmark.service.interface import interface_of

    cls = found if isinstance(found, type) else type(found)
    given: Document = {"interface": name} if name else {}
    settings = settings_of(cls, **given)
    return interface_of(cls, str(settings.service["interface"]))


def _load(target: str) -> Any:
    """Loads `module:object`, also from the current folder."""
    from importlib import import_module

    module, colon, attribute = target.partition(":")
    if not colon:
        raise click.UsageError(f"{target!r} is not of the form module:object")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise
        raise CliError(
            f"there is no module {module}", hint="run this command from the module's folder"
        ) from error
    except AttributeError as error:
        raise CliError(f"module {module} has no {attribute}") from error


def _created(cls: type, target: str) -> Any:
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise CliError(
            f"{cls.__name__} cannot be created without arguments",
            why=str(error),
            hint=f"name an object of it: {target.partition(':')[0]}:OBJECT",
        ) from error
    return cls()


def _argument(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def show_log() -> None:
    """For commands that serve until they are stopped."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def _call_hint(code: int) -> str | None:
    from floodmark.service.errors import RpcError

    if code == RpcError.NO_INVOKER:
        return "`floodmark service list` shows names, groups and versions: --group, --version"
    if code == RpcError.NETWORK:
        return "start the provider, or name another address with --url"
    return None


@contextmanager
def told() -> Iterator[None]:
    """Turns service failures into CLI errors."""
    # Every attempt to connect is a line of kazoo's; our own session tells what matters.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        from floodmark.service.errors import RegistryError, RpcError, ServiceError
    except ModuleNotFoundError as error:
        raise CliError(
            "services need additional packages", why=str(error), hint=INSTALL_HINT
        ) from error
    try:
        yield
    except RegistryError as error:
        raise CliError(
            "the registry is unreachable",
            why=str(error),
            hint="start ZooKeeper, or name it with --registry zookeeper://host:port",
        ) from error
    except RpcError as error:
        raise CliError(str(error), hint=_call_hint(error.code)) from error
    except ServiceError as error:
        raise CliError(str(error)) from error
    except ModuleNotFoundError as error:
        if error.name not in ("kazoo", "h2"):
            raise
        raise CliError(
            "services need additional packages", why=str(error), hint=INSTALL_HINT
        ) from error
