"""The API reference is made of docstrings: every public function has one."""

import inspect
from collections.abc import Iterator
from importlib import import_module

import pytest


def public_functions(module_name: str) -> Iterator[tuple[str, str]]:
    """Names and docstrings of what the module exports, and of its classes' own functions."""
    module = import_module(module_name)
    for name in module.__all__:
        exported = getattr(module, name)
        if not (inspect.isclass(exported) or inspect.isfunction(exported)):
            continue
        yield name, exported.__doc__ or ""
        for member, value in vars(exported).items() if inspect.isclass(exported) else ():
            function = value.fget if isinstance(value, property) else inspect.unwrap(value)
            function = getattr(function, "__func__", function)
            if inspect.isfunction(function) and not member.startswith("_"):
                yield f"{name}.{member}", function.__doc__ or ""


@pytest.mark.parametrize("module", ["client", "testing", "pipeline"])
def test_every_public_function_says_what_it_does(module: str) -> None:
    if module == "pipeline":
        pytest.importorskip("pyspark")
    functions = list(public_functions(f"floodmark.{module}"))
    assert functions
    assert [name for name, text in functions if not text.strip()] == []
