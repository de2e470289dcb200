"""`SchemaKeywords`: OpenAPI keywords that have no marker of their own, such as `oneOf` and `not`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Final

from .base import Marker, MarkerError, Schema

KEYWORDS: Final = (
    *("type", "format", "title", "description", "default", "example", "externalDocs", "enum", "nullable"),
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("properties", "additionalProperties", "items", "required", "allOf", "anyOf", "oneOf", "not"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
    *("x-kubernetes-int-or-string", "x-kubernetes-validations", "x-kubernetes-map-type"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
)
"""Keywords that the schema of a CustomResourceDefinition can contain."""


@dataclass(frozen=True)
class SchemaKeywords(Marker):
    """Keywords of the schema as plain JSON data, with the names of JSON fields.

    `SchemaKeywords({"oneOf": [{"required": ["host"]}, {"required": ["url"]}]})`. They replace keywords that
    follow from the type. Required fields are the exception: the list is added to those of the class.
    """

    keywords: Mapping[str, Any]
    on_class: ClassVar = True

    def __post_init__(self) -> None:
        for keyword in self.keywords:
            if keyword not in KEYWORDS:
                close = get_close_matches(keyword, KEYWORDS, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise MarkerError(
                    f"SchemaKeywords: {keyword!r} is not a keyword of CustomResourceDefinitions{hint}"
                )

    def __hash__(self) -> int:
        return hash(repr(self))

    def _write(self, schema: Schema) -> None:
        schema.update(self.keywords)
