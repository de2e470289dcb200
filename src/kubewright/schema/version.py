"""The compiled schema of one version of a custom resource.

    schema = SchemaVersion(crd_version["schema"]["openAPIV3Schema"])
    unknown = schema.decode(obj)          # request or storage: default, prune, coerce metadata, in place
    schema.default(obj)                   # again after admission
    verdict = schema.validate(obj, old)   # errors and warnings; `old` makes it an update

Each step starts with a fast check (see `validation.fast_check`) and returns early if nothing is to be done.
Objects are plain dicts and are changed in place. Undecodable metadata raises `MetadataError` (a 400); nesting
beyond the interpreter's recursion limit raises `TooDeepError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kubewright.api.field_errors import FieldError

from . import field_errors as fe
from .crd.scale import ScalePaths
from .defaulting import apply_defaults
from .pruning import drop_nulls, prune
from .structural import Node, Schema
from .validation.compiled import INVALID, REPEATED, UNFILLED, UNKNOWN, Compiled
from .validation.correlation import Correlated
from .validation.embedded import coerce_embedded, has_embedded, validate_embedded
from .validation.fast_check import check_of, make_check
from .validation.lists import validate_lists
from .validation.metadata import coerce_metadata
from .validation.rules import RuleRun, has_rules
from .validation.values import validate_value

_BLOCKING: Final = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)
RULES_SKIPPED: Final = fe.invalid(
    fe.ROOT,
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class TooDeepError(ValueError):
    """An object is nested too deeply."""

    def __init__(self) -> None:
        super().__init__("exceeded max depth: the object is nested too deeply")


class Verdict(NamedTuple):
    """Result of validation: errors reject the object, warnings are returned with the response."""

    errors: list[FieldError]
    warnings: list[str]


class SchemaVersion:
    """The compiled schema of one version of a resource."""

    __slots__ = ("_check", "_compiled", "_embedded", "_rules", "node", "preserve_unknown", "scale")

    def __init__(
        self,
        schema: Schema | Node,
        definitions: Mapping[str, Schema] | None = None,
        *,
        scale: ScalePaths | None = None,
        preserve_unknown: bool = False,
    ) -> None:
        """`preserve_unknown` is `spec.preserveUnknownFields` of CRDs created as v1beta1: nothing is
        pruned."""
        self.node = schema if isinstance(schema, Node) else Node(schema, definitions)
        self.scale = scale
        self.preserve_unknown = preserve_unknown
        self._compiled = Compiled.of(self.node)
        self._check = make_check(self._compiled, root=True)
        self._embedded = has_embedded(self.node)
        self._rules = has_rules(self.node)

    def decode(self, obj: dict[str, Any], *, repair: bool = False, keep_nulls: bool = False) -> list[str]:
        """Default, prune, drop nulls and coerce metadata, in place; return the paths of unknown fields.

        For requests; with `repair` for stored objects, where undecodable metadata is dropped instead of
        rejected. With `keep_nulls`, for applied configurations, nulls are kept and validated.
        """
        try:
            return self._decode(obj, self._check(obj, []), repair, keep_nulls)
        except RecursionError:
            raise TooDeepError from None

    def _decode(
        self, obj: dict[str, Any], flags: int, repair: bool = False, keep_nulls: bool = False
    ) -> list[str]:
        if not flags & (UNKNOWN | UNFILLED):
            return []
        if flags & UNFILLED:
            apply_defaults(obj, self.node)
        unknown = self._coerce_root(obj, repair) if flags & UNKNOWN else []
        if not self.preserve_unknown:
            if flags & UNKNOWN:
                unknown += prune(obj, self.node, root=True)
            if flags & UNFILLED and not keep_nulls:
                drop_nulls(obj, self.node)
        if self._embedded and flags & UNKNOWN:
            unknown += coerce_embedded(obj, self.node, drop_malformed=repair)
        return unknown

    def _coerce_root(self, obj: dict[str, Any], repair: bool) -> list[str]:
        if "metadata" not in obj:
            return []
        metadata, unknown = coerce_metadata(obj["metadata"], drop_malformed=repair)
        if metadata is not None:
            obj["metadata"] = metadata
        return [f"metadata.{name}" for name in unknown]

    def default(self, obj: dict[str, Any]) -> None:
        """Apply defaults in place."""
        try:
            apply_defaults(obj, self.node)
        except RecursionError:
            raise TooDeepError from None

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove unknown fields in place; return their paths, sorted."""
        try:
            return prune(obj, self.node, root=True)
        except RecursionError:
            raise TooDeepError from None

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> Verdict:
        """Validate a new object, or an update of `old`."""
        try:
            bad: list[int] = []
            return self._validate(obj, old, self._check(obj, bad), bad)
        except RecursionError:
            raise TooDeepError from None

    def _validate(
        self, obj: dict[str, Any], old: dict[str, Any] | None, flags: int, bad: list[int]
    ) -> Verdict:
        errors: list[FieldError] = []
        places: frozenset[int] = frozenset()
        if flags & INVALID:
            pair = Correlated(obj, old, self.node) if old is not None else None
            places = frozenset(bad)
            errors = validate_value(self._compiled, obj, correlated=pair, bad=places)
        if self.scale is not None:
            errors += self.scale.errors(obj)
        if flags & INVALID:
            errors += validate_embedded(obj, self.node) if self._embedded else []
            if flags & REPEATED:
                errors += self._list_errors(obj, old, places)
        if not self._rules:
            return Verdict(errors, [])
        return self._with_rules(errors, obj, old)

    def validate_status(self, obj: dict[str, Any], old: dict[str, Any]) -> Verdict:
        """Validate a status update: the schema of the status, and all rules."""
        try:
            errors: list[FieldError] = []
            status = self._compiled.field("status")
            if status is not None and "status" in obj and check_of(status)(obj["status"], []) & INVALID:
                before = old.get("status")
                pair = Correlated(obj["status"], before, status.node) if before is not None else None
                errors = validate_value(status, obj["status"], "status", pair)
            if self.scale is not None:
                errors += self.scale.status_errors(obj)
            errors += validate_embedded(obj, self.node) if self._embedded else []
            errors += self._list_errors(obj, old)
            return self._with_rules(errors, obj, old) if self._rules else Verdict(errors, [])
        except RecursionError:
            raise TooDeepError from None

    def _list_errors(
        self, obj: dict[str, Any], old: dict[str, Any] | None, bad: frozenset[int] | None = None
    ) -> list[FieldError]:
        """Return duplicates in sets and list maps; duplicates that the old object already had are allowed.

        Therefore unchanged parts of the object are skipped.
        """
        searched = obj
        if old is not None and bad is None:
            searched = {name: value for name, value in obj.items() if value is not old.get(name)}
        errors = validate_lists(self.node, searched, fe.ROOT, bad)
        return [] if errors and old is not None and validate_lists(self.node, old, fe.ROOT) else errors

    def _with_rules(
        self, errors: list[FieldError], obj: dict[str, Any], old: dict[str, Any] | None
    ) -> Verdict:
        if any(error.reason in _BLOCKING for error in errors):
            return Verdict([*errors, RULES_SKIPPED], [])
        run = RuleRun().validate(self.node, obj, old, root=True)
        return Verdict(errors + run.errors, run.warnings)

    def process(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> tuple[list[str], Verdict]:
        """Decode and validate; an object that needs no change is traversed once."""
        try:
            bad: list[int] = []
            flags = self._check(obj, bad)
            unknown = self._decode(obj, flags, False)
            if flags & (UNKNOWN | UNFILLED):
                bad = []
                flags = self._check(obj, bad)
            return unknown, self._validate(obj, old, flags, bad)
        except RecursionError:
            raise TooDeepError from None
