"""Annotations of classes while they are created and afterwards, on every supported Python.

Since Python 3.14 (PEP 649) a class has a function that computes its annotations instead of the mapping,
unless its module has `from __future__ import annotations`. Names that are not defined yet are returned as
text, as with that import.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ForwardRef


def namespace_annotations(namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the annotations in the namespace of a class that is being created."""
    found: Mapping[str, Any] | None = namespace.get("__annotations__")
    if found is None and sys.version_info >= (3, 14):
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is not None:
            found = annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)
    return _with_text(found or {})


def own_annotations(cls: type) -> Mapping[str, Any]:
    """Return the annotations that a class declares itself, without those of its bases."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return _with_text(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    found: Mapping[str, Any] = vars(cls).get("__annotations__", {})
    return found


def _with_text(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: each.__forward_arg__ if isinstance(each, ForwardRef) else each
        for name, each in annotations.items()
    }
