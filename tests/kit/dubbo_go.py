"""The Go consumer of the services' tests, built on the stub that a Go team would write."""

from pathlib import Path

from floodmark.service.interface import interface_of
from floodmark.service.stub import go_source
from kit.go_program import built
from kit.sample_service import INTERFACE, Sample

_FOLDER = Path(__file__).parent.parent / "service" / "go"


def dubbo_go_consumer() -> Path:
    stub = go_source(interface_of(Sample, INTERFACE))
    return built(_FOLDER, "dubbo-go-consumer", {"stub/stub.go": stub})
