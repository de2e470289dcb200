"""Markers that document a schema: descriptions, titles, examples, links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from .base import Marker, MarkerError, Schema


@dataclass(frozen=True)
class Example(Marker):
    """An example value."""

    value: Any
    on_class: ClassVar = True

    def __hash__(self) -> int:
        return hash(repr(self))

    def _write(self, schema: Schema) -> None:
        schema["example"] = self.value


@dataclass(frozen=True)
class Title(Marker):
    """A short title."""

    text: str
    on_class: ClassVar = True

    def _write(self, schema: Schema) -> None:
        if not isinstance(self.text, str):
            raise MarkerError(f"Title({self.text!r}): write a string")
        schema["title"] = self.text


@dataclass(frozen=True)
class ExternalDocs(Marker):
    """A link to further documentation."""

    url: str
    description: str = ""
    on_class: ClassVar = True

    def _write(self, schema: Schema) -> None:
        parts = urlsplit(self.url)
        if not (parts.scheme and parts.netloc) and not self.url.startswith("/"):
            raise MarkerError(
                f"ExternalDocs({self.url!r}): write an absolute URL such as https://example.com/x"
            )
        docs = {"url": self.url}
        if self.description:
            docs["description"] = self.description
        schema["externalDocs"] = docs


@dataclass(frozen=True)
class Description(Marker):
    """The description; it overrides the docstring, and an empty string removes it."""

    text: str

    def _write(self, schema: Schema) -> None:
        schema["description"] = self.text


@dataclass(frozen=True)
class MaxDescription(Marker):
    """Truncate the descriptions of a field and below to `length` characters; 0 removes them."""

    length: int

    def _write(self, schema: Schema) -> None:
        """Do nothing; the schema builder truncates the descriptions at the end."""
