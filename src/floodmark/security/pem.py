"""Converts PEM text from settings to the format that OpenSSL reads. PURE.

Properties files join continued lines, so a key in a setting (KIP-651) often has blanks where the
line ends were, which Kafka reads and OpenSSL does not.
"""

from __future__ import annotations

import re

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE_LENGTH = 64


def normalized(text: str) -> str:
    """Its blocks, one per line, without the text between them."""
    return "".join(_block(match[1], match[2]) for match in _BLOCK.finditer(text))


def _block(kind: str, body: str) -> str:
    if ":" not in body:
        joined = "".join(body.split())
        lines = [joined[at : at + _LINE_LENGTH] for at in range(0, len(joined), _LINE_LENGTH)]
        body = "\n" + "\n".join(lines) + "\n"
    # A key in the old form has headers, in which line ends count.
    return f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"
