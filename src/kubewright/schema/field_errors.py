"""Short constructors for field errors and field paths.

A path is the text of `details.causes[].field`: `spec.ports[0].name`, `metadata.labels`. The root of an object
is `ROOT`, which prints as `<nil>`. `child`, `index` and `key` extend a path. Validation code imports this
module as `fe`: `fe.required(path)`, `fe.invalid(path, value, detail)` return a
`kubewright.api.field_errors.FieldError`.
"""

from __future__ import annotations

from typing import Final

from kubewright.api.field_errors import OMIT as OMIT
from kubewright.api.field_errors import FieldError
from kubewright.api.values.go_format import GoStruct as GoStruct

ROOT: Final = "<nil>"

invalid = FieldError.invalid
type_invalid = FieldError.type_invalid
not_supported = FieldError.not_supported
duplicate = FieldError.duplicate
required = FieldError.required
forbidden = FieldError.forbidden
too_long = FieldError.too_long
too_many = FieldError.too_many
internal = FieldError.internal


def child(path: str, name: str) -> str:
    """The path of a named field."""
    return name if path == ROOT or not path else f"{path}.{name}"


def index(path: str, position: int) -> str:
    """The path of a list element."""
    return f"[{position}]" if path == ROOT else f"{path}[{position}]"


def key(path: str, name: str) -> str:
    """The path of a map entry."""
    return f"[{name}]" if path == ROOT else f"{path}[{name}]"
