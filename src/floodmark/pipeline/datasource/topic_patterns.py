"""Java's regular expressions for topic names, as Python's. PURE.

Called by `options.py` and `planning.py` for `subscribePattern`, which in Spark's connector is an
expression of Java. The two languages agree on most of it; what only Java has would match nothing in
Python, silently. Names consist of few characters, so classes become lists of those they contain.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

from floodmark.pipeline.errors import OptionError

_LETTERS = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
_MARKS = frozenset("._-")
ALPHABET = _LETTERS | _DIGITS | _MARKS
_LOWER, _UPPER = frozenset(string.ascii_lowercase), frozenset(string.ascii_uppercase)
_NONE: frozenset[str] = frozenset()

_CLASSES = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | {"_"},
    # No name contains white space.
    "s": _NONE,
    "h": _NONE,
    "v": _NONE,
}
_PROPERTIES = {
    "Alpha Alphabetic L Letter Latin LC": _LETTERS,
    "Lower Lowercase Ll javaLowerCase": _LOWER,
    "Upper Uppercase Lu javaUpperCase": _UPPER,
    "Digit Nd N": _DIGITS,
    "Alnum javaLetterOrDigit": _LETTERS | _DIGITS,
    "Punct Punctuation P": _MARKS,
    "Po": frozenset("."),
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "XDigit Hex_Digit": frozenset(string.hexdigits),
    "Graph Print ASCII": ALPHABET,
    "Space Blank Cntrl White_Space Z S": _NONE,
}
_BY_NAME = {name: found for names, found in _PROPERTIES.items() for name in names.split()}
# Escapes with the same meaning in both. `Z` ends a text, which here never has a final newline.
_SAME_ESCAPES = "AbBtnrfaZ"
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_SAME_GROUPS = ("(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!")
_NAMED_GROUP = re.compile(r"\(\?P?<([A-Za-z][A-Za-z0-9_]*)>")


def compile_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(_Translator(text).expression())
    except re.error as error:
        raise OptionError(
            f"option subscribePattern is {text!r}: it is not a valid expression ({error})"
        ) from error


class _Translator:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # Whether capitals count, outermost group first.
        self._ignores_case = [False]

    def expression(self) -> str:
        parts = []
        while self._at < len(self._text):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        first = self._text[self._at]
        if first == "\\":
            return self._escape()
        if first == "[":
            return _listed(self._class())
        if first == "(":
            return self._group()
        if first == ")" and len(self._ignores_case) > 1:
            self._ignores_case.pop()
        return self._take(1)

    def _take(self, count: int) -> str:
        start, self._at = self._at, self._at + count
        return self._text[start : self._at]

    def _take_to(self, end: str, *, optional: bool = False) -> str:
        found = self._text.find(end, self._at)
        if found < 0 and not optional:
            raise re.error(f"missing {end}", self._text, self._at)
        found = len(self._text) if found < 0 else found
        text = self._take(found - self._at)
        self._at = min(found + len(end), len(self._text))
        return text

    def _starts(self, *texts: str) -> bool:
        return self._text.startswith(texts, self._at)

    # --- groups ---

    def _group(self) -> str:
        ignores_case = self._ignores_case[-1]
        if not self._starts("(?"):
            self._ignores_case.append(ignores_case)
            return self._take(1)
        for same in _SAME_GROUPS:
            if self._starts(same):
                self._ignores_case.append(ignores_case)
                return self._take(len(same))
        if named := _NAMED_GROUP.match(self._text, self._at):
            self._ignores_case.append(ignores_case)
            self._take(len(named[0]))
            return f"(?P<{named[1]}>"
        return self._flags(ignores_case)

    def _flags(self, ignores_case: bool) -> str:
        found = _FLAGS.match(self._text, self._at)
        if found is None:
            raise re.error("unknown kind of group", self._text, self._at)
        on, off, end = found[1], found[2] or "", found[3]
        if unknown := set(on + off) - set("imsu"):
            raise re.error(f"flag {min(unknown)} is not supported", self._text, self._at)
        if end == ")" and (off or self._at):
            raise re.error(
                "flags must be at the start, or in a group such as (?i:...)", self._text, self._at
            )
        self._take(len(found[0]))
        ignores_case = (ignores_case or "i" in on) and "i" not in off
        # Python's texts are always Unicode.
        on, off = on.replace("u", ""), off.replace("u", "")
        if end == ")":
            self._ignores_case[-1] = ignores_case
            return f"(?{on})" if on else ""
        self._ignores_case.append(ignores_case)
        return f"(?{on}{f'-{off}' if off else ''}:"

    # --- escapes ---

    def _escape(self) -> str:
        found = self._escaped_class()
        if found is not None:
            return _listed(found)
        name = self._text[self._at + 1 : self._at + 2]
        if not name:
            raise re.error("a backslash at the end", self._text, self._at)
        if name == "z":
            self._take(2)
            return r"\Z"
        if self._starts(r"\k<"):
            self._take(3)
            return f"(?P={self._take_to('>')})"
        if name == "Q":
            return re.escape(self._quoted())
        if name in _SAME_ESCAPES or name in "123456789":
            return self._take(2)
        return re.escape(self._escaped_character())

    def _quoted(self) -> str:
        self._take(2)
        return self._take_to(r"\E", optional=True)

    def _escaped_class(self) -> frozenset[str] | None:
        r"""The characters of \d, \W, \p{Lu} and the like. None for other escapes."""
        name = self._text[self._at + 1 : self._at + 2]
        if name.lower() in _CLASSES and name:
            self._take(2)
            found = _CLASSES[name.lower()]
            return found if name.islower() else ALPHABET - found
        if name and name in "pP":
            self._take(2)
            found = self._property()
            return found if name == "p" else ALPHABET - found
        return None

    def _property(self) -> frozenset[str]:
        start = self._at
        name = self._take(1)
        if name == "{":
            name = self._take_to("}")
        wanted = name.rpartition("=")[2]
        found = _BY_NAME.get(wanted, _BY_NAME.get(wanted.removeprefix("Is")))
        if found is None:
            raise re.error(f"unknown property {name}", self._text, start)
        return self._both_cases(found) if self._ignores_case[-1] else found

    def _escaped_character(self) -> str:
        start = self._at
        self._take(1)
        name = self._take(1)
        if name == "x" and self._starts("{"):
            self._take(1)
            return chr(self._number(self._take_to("}"), 16))
        for letter, length in (("x", 2), ("u", 4)):
            if name == letter:
                return chr(self._number(self._take(length), 16))
        if name == "0":
            digits = re.compile(r"[0-3]?[0-7]{1,2}").match(self._text, self._at)
            return chr(self._number(self._take(len(digits[0])) if digits else "", 8))
        if name == "e":
            return "\x1b"
        if name.isalnum():
            raise re.error(f"\\{name} is not supported", self._text, start)
        return name

    def _number(self, digits: str, base: int) -> int:
        try:
            return int(digits, base)
        except ValueError:
            raise re.error("a number is missing", self._text, self._at) from None

    # --- classes ---

    def _class(self) -> frozenset[str]:
        """The characters of a class with all that is nested in it."""
        self._take(1)
        is_negated = self._starts("^") and bool(self._take(1))
        parts: list[frozenset[str]] = []
        part = _NONE
        is_empty = True
        # A bracket that comes first is an ordinary character.
        while is_empty or not self._starts("]"):
            if self._at >= len(self._text):
                raise re.error("a class is not closed", self._text, self._at)
            if self._starts("&&"):
                self._take(2)
                parts.append(part)
                part = _NONE
                continue
            part |= self._item()
            is_empty = False
        self._take(1)
        found = _common([*parts, part])
        return ALPHABET - found if is_negated else found

    def _item(self) -> frozenset[str]:
        if self._starts("["):
            return self._class()
        if self._starts(r"\Q"):
            return self._both_cases(self._quoted())
        if self._starts("\\"):
            found = self._escaped_class()
            if found is not None:
                return found
        first = self._character()
        is_range = self._starts("-") and not self._starts("-]", "-[", "-&&")
        if not is_range:
            return self._both_cases(first)
        self._take(1)
        last = self._character()
        if last < first:
            raise re.error(f"{first}-{last} is no range", self._text, self._at)
        return self._both_cases(c for c in ALPHABET if first <= c <= last)

    def _character(self) -> str:
        if not self._starts("\\"):
            return self._take(1)
        name = self._text[self._at + 1 : self._at + 2]
        if name and name in "tnrfa":
            self._take(2)
            return " "  # no name contains it
        return self._escaped_character()

    def _both_cases(self, characters: Iterable[str]) -> frozenset[str]:
        found = frozenset(characters)
        if self._ignores_case[-1]:
            found |= {character.swapcase() for character in found}
        return found


def _common(parts: list[frozenset[str]]) -> frozenset[str]:
    return frozenset.intersection(*parts)


def _listed(characters: frozenset[str]) -> str:
    """A class of these characters. One that matches nothing if there are none."""
    inside = "".join(re.escape(character) for character in sorted(characters & ALPHABET))
    return f"[{inside}]" if inside else "(?!)"
