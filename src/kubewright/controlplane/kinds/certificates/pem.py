"""PEM blocks of a text, as Go's decoder finds them: other text around them is ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]*)-----[ \t\r]*\n(.*?)-----END \1-----", re.DOTALL)


class PEMBlock(NamedTuple):
    """A block with its markers."""

    type: str
    text: str
    has_headers: bool


def pem_blocks(text: str) -> Iterator[PEMBlock]:
    """Yield the blocks of a text."""
    for found in _BLOCK.finditer(text):
        first = found[2].partition("\n")[0]
        yield PEMBlock(found[1], found[0], ":" in first)
