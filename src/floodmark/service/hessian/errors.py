"""What can be wrong with a value or its bytes."""


class HessianError(ValueError):
    """The bytes are no Hessian2, exceed a limit, or the value has no form in Hessian2."""
