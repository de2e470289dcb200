"""Errors of rules that Kubernetes derives from the types themselves.

They come after those of the hand-written rules, and say less: a missing field is just required, a field that
may not change is shown as `null`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.schema import fielderrors as fe

from .podspec.names_and_numbers import Errors


class Declared(FieldError):
    """An error that comes last."""

    __slots__ = ()


def declared(error: FieldError) -> FieldError:
    """The same error, from a rule that is derived."""
    return Declared(error.reason, error.field, error.message)


def missing(path: str) -> FieldError:
    """A field that is required."""
    return declared(fe.required(path, ""))


def changed(new: Any, old: Any, path: str) -> Errors:
    """A field that may not change."""
    return [] if new == old else [declared(fe.invalid(path, None, "field is immutable"))]


def in_order(errors: Iterable[FieldError]) -> Errors:
    """Hand-written rules first."""
    return sorted(errors, key=lambda error: isinstance(error, Declared))
