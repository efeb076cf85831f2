"""Errors in a value or its bytes."""


class HessianError(ValueError):
    """The bytes are not valid Hessian2 or exceed a limit, or the value cannot be encoded."""
