"""Java types without a Python equivalent, for use as type hints.

A plain `int` is a Java long, a plain `float` a double, `bytes` a byte[]. If the Java interface has
another width, name it: `def add(self, a: Int, b: Int) -> Int`.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple


class Java(NamedTuple):
    """The Java type behind a hint, as in Java sources."""

    name: str


Byte = Annotated[int, Java("byte")]
Short = Annotated[int, Java("short")]
Int = Annotated[int, Java("int")]
Long = Annotated[int, Java("long")]
Float = Annotated[float, Java("float")]
Double = Annotated[float, Java("double")]
Char = Annotated[str, Java("char")]
BigInteger = Annotated[int, Java("java.math.BigInteger")]

IntArray = Annotated[list[int], Java("int[]")]
LongArray = Annotated[list[int], Java("long[]")]
DoubleArray = Annotated[list[float], Java("double[]")]
BooleanArray = Annotated[list[bool], Java("boolean[]")]
StringArray = Annotated[list[str], Java("java.lang.String[]")]
ObjectArray = Annotated[list[Any], Java("java.lang.Object[]")]
