"""`RawObject`: a field that contains an arbitrary JSON object.

Use it for configuration that is forwarded and for templates of other kinds. In a schema it is an object with
`x-kubernetes-preserve-unknown-fields`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from kubewright.api.markers import Marker, Schema


@dataclass(frozen=True)
class RawObjectMarker(Marker):
    """Marker of `RawObject`: an object without a schema that is not pruned."""

    first = True

    def _write(self, schema: Schema) -> None:
        schema.clear()
        schema["type"] = "object"
        schema["x-kubernetes-preserve-unknown-fields"] = True


RawObject = Annotated[dict[str, Any], RawObjectMarker()]
"""Any JSON object."""
