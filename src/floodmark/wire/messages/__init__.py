"""Our definitions of Kafka's messages, a module per API, imported when first asked for.

Called by the dispatcher and the client, which know an API key and want the class.
"""

from functools import cache
from importlib import import_module
from typing import Any

from floodmark.wire.api_keys import ApiKey


@cache
def request_class(api_key: ApiKey) -> type[Any]:
    """The class of the API's requests."""
    return _load(api_key, "Request")


@cache
def response_class(api_key: ApiKey) -> type[Any]:
    """The class of the API's responses."""
    return _load(api_key, "Response")


def _load(api_key: ApiKey, kind: str) -> type[Any]:
    name = ApiKey(api_key).name
    module = import_module(f"{__name__}.{name.lower()}")
    words = name.split("_")
    loaded: type[Any] = getattr(module, "".join(map(str.capitalize, words)) + kind)
    return loaded
