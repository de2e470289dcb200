"""The declaration of a built-in kind.

The inventory (`kubewright.api.builtin.resources`) lists the kinds, their versions and verbs; the schema lists
their fields. A `Kind` declares everything else about one kind, in one place: defaults, validation, warnings,
printed columns, field selectors, subresources, conversion and deviations from the usual behaviour. Every
field is optional.

A kind is declared in the `KINDS` of a module of its group's package and needs no registration:

    KINDS = {
        "widgets": Kind(
            default=apply_defaults,
            validate=Rules({"spec.size": Minimum(0)}),
            validate_update=UpdateRules(RULES, {"spec.size": Immutable()}),
            columns=(column("Size", shown("spec.size"), "integer", "Size of the widget."), AGE),
        )
    }

What functions cannot express, such as access to other objects, is a subclass of `KindStrategy`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.api.values.names import check_dns_subdomain
from kubewright.apiserver.resources.conversion import VersionConverter
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import TableColumn, Version
from kubewright.apiserver.resources.strategy import Operation, Strategy
from kubewright.apiserver.resources.subresource import StatusSubresource, Subresource

Errors = list[FieldError]
MaybeAwaitErrors = Iterable[FieldError] | Awaitable[Iterable[FieldError]]

STATUS = StatusSubresource(keeps_metadata=False)
"""The `status` subresource of most built-in kinds, through which labels and annotations can be written."""

STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
"""Finalizers without a domain that are valid for every kind."""


def check_complete_name(name: str, *, prefix: bool = False) -> list[str]:
    """Check that a name is a DNS subdomain; `generateName` prefixes are not checked."""
    return [] if prefix else check_dns_subdomain(name, unit="bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Everything about a built-in kind beyond its schema."""

    default: Callable[[Object], None] | None = None
    """Set default values, in place."""
    validate: Callable[[Object], Errors] | None = None
    """Validate a new object; also an update, unless `validate_update` is given. Usually a `Rules`."""
    validate_update: Callable[[Object, Object], Errors] | None = None
    """Validate an update, given the new and the old object. Usually an `UpdateRules`."""
    validate_status: Callable[[Object, Object], Errors] | None = None
    """Validate an update through the `status` subresource, given the new and the old object."""
    warnings: Callable[[Object, Object | None], Iterable[str]] | None = None
    """Warnings about a valid object, given the new and the old object (`None` for a create)."""
    validate_name: Callable[..., list[str]] | None = None
    """Check a name; `prefix=True` for `generateName`. DNS subdomains by default."""
    generation_fields: tuple[str, ...] | None = None
    """Top-level fields whose changes increment `metadata.generation`; `None`: no generation."""

    columns: Sequence[TableColumn] | None = None
    """Table columns after the name (including it if `cells` is given); `None`: the age alone."""
    cells: Callable[[Object], list[Any]] | None = None
    """Return all cells of a table row, including the name."""
    row_order: Callable[[Object], Any] | None = None
    """Sort key of table rows; by name if `None`."""
    field_selectors: Mapping[str, str | Callable[[Object], str]] = field(default_factory=dict)
    """Selectable fields besides name and namespace: label to a dotted path or a function."""
    unsupported_field_message: str = ""
    """Error for a field that cannot be selected, if not the usual one
    (`Strategy.unsupported_field_message`)."""
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """Subresources whose behaviour differs from the usual `status` and `scale`."""
    verbs: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Handlers of verbs that are not served from storage (see `Resource.handlers`)."""
    converter: VersionConverter | None = None
    """Conversion between versions that differ in more than their name."""

    deprecation: str = ""
    """Warning returned with every request for the kind."""
    display_prefix: str = ""
    """Storage prefix that messages show, where Kubernetes stores objects under an older name."""
    hashed_group_version: str = ""
    """Group version in the storage version hash of discovery, where kube-apiserver stores another one."""
    allow_create_on_update: bool | None = None
    """Whether PUT of a missing object creates it. `None`, here and below: as the strategy's class."""
    allow_unconditional_update: bool | None = None
    """Whether PUT without a resourceVersion replaces the object."""
    returns_deleted_object: bool | None = None
    """Whether DELETE returns the object instead of a Status."""
    status_keeps_metadata: bool = False
    """Whether updates through `status` ignore changes of metadata."""
    checks_whole_on_update: bool = False
    """Whether kube-apiserver also applies the rules for new objects to updates and repeats their errors."""
    rechecks_metadata: bool = True
    """Whether kube-apiserver validates the metadata of updates a second time and repeats the errors."""
    any_finalizer: bool = False
    """Whether finalizers without a domain are valid."""

    former: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields that differ in other versions of Kubernetes than the newest, by range of versions (`-1.36`)."""

    strategy: Callable[[Kind], Strategy] | None = None
    """Makes the strategy of one server, usually a subclass of `KindStrategy`, which is the default."""

    def in_version(self, version: KubernetesVersion) -> Kind:
        """Return the declaration of a version of Kubernetes."""
        kind = self
        for versions, fields in self.former.items():
            if version.includes(versions):
                kind = replace(kind, **fields)
        return kind

    def build_strategy(self) -> Strategy:
        """Return a strategy for one server."""
        strategy = (self.strategy or KindStrategy)(self)
        strategy.checks_whole_on_update = self.checks_whole_on_update
        strategy.rechecks_metadata = self.rechecks_metadata
        strategy.unsupported_field_message = self.unsupported_field_message
        return strategy


class KindStrategy(Strategy):
    """Strategy of a built-in kind: applies the functions and options of its `Kind`."""

    allow_unconditional_update = True
    tracks_generation = False
    """Whether `metadata.generation` counts changes."""

    runs_in_worker = True
    status_defaults_need_spec = False

    def __init__(self, kind: Kind | None = None) -> None:
        """Initialize from a declaration, which overrides the options of the class."""
        self.kind = kind = kind or Kind()
        for option in ("allow_create_on_update", "allow_unconditional_update", "returns_deleted_object"):
            value = getattr(kind, option)
            if value is not None:
                setattr(self, option, value)
        if kind.generation_fields is not None:
            self.tracks_generation = True
        if kind.row_order is not None:
            self.row_order = kind.row_order

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Apply the kind's name rule."""
        return (self.kind.validate_name or check_dns_subdomain)(name, prefix=prefix)

    def validate_finalizers(self, finalizers: Sequence[str]) -> Iterable[FieldError]:
        """Require a domain, or one of the standard finalizers."""
        return () if self.kind.any_finalizer else self.qualified_finalizer_errors(finalizers)

    @staticmethod
    def qualified_finalizer_errors(finalizers: Sequence[str]) -> Iterator[FieldError]:
        """Return an error for each finalizer without a domain that is not a standard one."""
        for index, name in enumerate(finalizers):
            if "/" not in name and name not in STANDARD_FINALIZERS:
                yield FieldError.invalid(
                    f"metadata.finalizers[{index}]",
                    name,
                    "name is neither a standard finalizer name nor is it fully qualified",
                )

    def initial_generation(self, obj: Object) -> int | None:
        """Return 1 if the kind has a generation."""
        return 1 if self.tracks_generation else None

    def generation_changes(self, op: Operation, obj: Object, old: Object) -> bool:
        """Compare the fields that the generation counts."""
        if not self.tracks_generation:
            return False
        return any(obj.get(name) != old.get(name) for name in self.kind.generation_fields or ("spec",))

    def default(self, version: Version, obj: Object) -> None:
        """Apply the kind's defaults."""
        if self.kind.default is not None:
            self.kind.default(obj)

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Restore metadata that the `status` subresource must not change."""
        if op.subresource == "status" and self.kind.status_keeps_metadata:
            kept = dict(old["metadata"])
            for name in ("managedFields", "resourceVersion"):
                if name in obj["metadata"]:
                    kept[name] = obj["metadata"][name]
                else:
                    kept.pop(name, None)
            obj["metadata"].clear()
            obj["metadata"].update(kept)

    def validate(self, op: Operation, obj: Object) -> MaybeAwaitErrors:
        """Validate a new object."""
        return self.kind.validate(obj) if self.kind.validate is not None else ()

    def validate_update(self, op: Operation, obj: Object, old: Object) -> MaybeAwaitErrors:
        """Validate an update of the object or of its status."""
        kind = self.kind
        if op.subresource == "status":
            return kind.validate_status(obj, old) if kind.validate_status is not None else ()
        if kind.validate_update is not None:
            return kind.validate_update(obj, old)
        return kind.validate(obj) if kind.validate is not None else ()

    def warnings(self, op: Operation, obj: Object, old: Object | None) -> Iterable[str]:
        """Return the warnings about a valid object."""
        if self.kind.warnings is None or op.subresource:
            return ()
        return self.kind.warnings(obj, old)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that managers cannot own through an endpoint because it ignores them."""
        if subresource == "status":
            return ("metadata", "spec") if self.kind.status_keeps_metadata else ("spec",)
        return ("status",)
