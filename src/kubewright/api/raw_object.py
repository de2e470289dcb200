"""`RawObject`: a field that holds any JSON object, kept as it is.

Use it where a schema would say too much: configuration that is passed on, templates of foreign kinds. In a
schema it is an object whose unknown fields are preserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from .markers import Marker, Schema


@dataclass(frozen=True)
class RawObjectMarker(Marker):
    """Tells the schema generator that nothing below is described and nothing is pruned."""

    first = True

    def _write(self, schema: Schema) -> None:
        schema.clear()
        schema["type"] = "object"
        schema["x-kubernetes-preserve-unknown-fields"] = True


RawObject = Annotated[dict[str, Any], RawObjectMarker()]
"""Any JSON object."""
