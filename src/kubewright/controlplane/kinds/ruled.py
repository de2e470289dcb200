"""Strategies put together from functions: the usual shape of the rules of a built-in kind.

    RuledStrategy(defaults=fill, errors=check, update_errors=check_change, counts=("spec",))

Functions get plain objects and return lists of field errors. What is not given has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.names import check_dns_subdomain
from kubewright.apiserver.resource import Object, Operation, Version

from .kind import KindStrategy
from .podspec.names_and_numbers import Errors

NameRule = Callable[..., list[str]]


def no_errors(*objects: Object) -> Errors:
    """Nothing is wrong."""
    return []


class RuledStrategy(KindStrategy):
    """A strategy whose parts are functions."""

    def __init__(
        self,
        *,
        defaults: Callable[[Object], None] | None = None,
        errors: Callable[[Object], Errors] = no_errors,
        update_errors: Callable[[Object, Object], Errors] | None = None,
        status_errors: Callable[[Object, Object], Errors] = no_errors,
        warnings: Callable[[Object, Object | None], Iterable[str]] | None = None,
        name_rule: NameRule = check_dns_subdomain,
        counts: tuple[str, ...] | None = None,
        creates_on_update: bool = False,
        unconditional: bool = True,
        status_keeps_metadata: bool = False,
        returns_deleted: bool = False,
        row_order: Callable[[Object], Any] | None = None,
    ) -> None:
        """`update_errors` gets (new, old) and says everything about an update; `errors(new)` by default.

        `counts` names the fields whose changes make a new generation; `None`: the kind has no generation.
        """
        self._defaults = defaults
        self._errors = errors
        self._update_errors = update_errors
        self._status_errors = status_errors
        self._warnings = warnings
        self._name_rule = name_rule
        self._counts = counts
        self.tracks_generation = counts is not None
        self.allow_create_on_update = creates_on_update
        self.allow_unconditional_update = unconditional
        self._status_keeps_metadata = status_keeps_metadata
        self.returns_deleted_object = returns_deleted
        self.row_order = row_order

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """By the kind's rule."""
        return self._name_rule(name, prefix=prefix)

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Whether one of the fields that count has changed."""
        return any(obj.get(name) != old.get(name) for name in self._counts or ())

    def default(self, version: Version, obj: Object) -> None:
        """The kind's defaults."""
        if self._defaults is not None:
            self._defaults(obj)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Some statuses cannot be used to change metadata."""
        if op.subresource == "status" and self._status_keeps_metadata:
            kept = dict(old["metadata"])
            for name in ("managedFields", "resourceVersion"):
                if name in obj["metadata"]:
                    kept[name] = obj["metadata"][name]
                else:
                    kept.pop(name, None)
            obj["metadata"].clear()
            obj["metadata"].update(kept)

    def validate(self, op: Operation, obj: Object) -> Errors:
        """Of a new object."""
        return self._errors(obj)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Errors:
        """Of a changed object, or of a changed status."""
        if op.subresource == "status":
            return self._status_errors(obj, old)
        return self._errors(obj) if self._update_errors is None else self._update_errors(obj, old)

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """About a valid object."""
        return self._warnings(obj, old) if self._warnings is not None and not op.subresource else ()

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """What the endpoint ignores."""
        if subresource == "status":
            return ("metadata", "spec") if self._status_keeps_metadata else ("spec",)
        return ("status",)
