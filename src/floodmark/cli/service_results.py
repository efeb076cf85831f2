"""Results of Dubbo calls as JSON values, for `floodmark service call`. PURE.

Java's maps have keys of any type, its doubles may be no numbers, and its objects may be cyclic.
"""

from __future__ import annotations

import json
import math
from typing import Any

from floodmark.cli.record_json import to_json
from floodmark.service.hessian import JavaObject


def shown(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """`inside` has the ids of the values around this one."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, bytes):
        return to_json(value)
    if not isinstance(value, (dict, list, tuple, JavaObject)) or id(value) in inside:
        return str(value)
    inside = (*inside, id(value))
    if isinstance(value, JavaObject):
        return {"class": value.java_class} | shown(value.fields, inside)
    if isinstance(value, dict):
        return {_key(key): shown(item, inside) for key, item in value.items()}
    return [shown(item, inside) for item in value]


def _key(key: Any) -> str:
    made = shown(key)
    return made if isinstance(made, str) else json.dumps(made)
