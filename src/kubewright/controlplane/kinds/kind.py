"""What is particular about a built-in kind, beyond its schema.

The inventory (`kubewright.api.builtin_resources`) lists the kinds, the schema their fields. A `Kind` has
the rest: how objects are defaulted, validated and changed (`strategy`), how `kubectl get` prints
them (`columns` and `cells`), what can be selected, and how its subresources respond. Everything has a default
that suits a kind about which there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubewright.api.field_errors import FieldError
from kubewright.api.names import check_dns_subdomain
from kubewright.apiserver.resource import Column, Converter, Object, Strategy, Subresource


def check_final_name(name: str, *, prefix: bool = False) -> list[str]:
    """The rule of kinds that look at a name only when it is complete: a DNS subdomain."""
    return [] if prefix else check_dns_subdomain(name, unit="bytes")


_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))


class KindStrategy(Strategy):
    """The manners of most built-in kinds.

    An update need not name the version that it replaces, and there is no generation unless the kind has one.
    """

    allow_unconditional_update = True
    tracks_generation = False
    """Whether `metadata.generation` counts the changes of the spec."""

    any_finalizer = False
    """Whether finalizers need no domain."""

    def validate_finalizers(self, finalizers: Sequence[str]) -> Iterable[FieldError]:
        """Finalizers of most built-in kinds have a domain, or are one of Kubernetes' own."""
        for index, name in enumerate(() if self.any_finalizer else finalizers):
            if "/" not in name and name not in _FINALIZERS:
                yield FieldError.invalid(
                    f"metadata.finalizers[{index}]",
                    name,
                    "name is neither a standard finalizer name nor is it fully qualified",
                )

    def initial_generation(self, obj: Object) -> int | None:
        """1 where the kind counts, nothing otherwise."""
        return 1 if self.tracks_generation else None

    def generation_changes(self, op: Any, obj: Object, old: Object) -> bool:
        """Built-in kinds count changes of their spec alone."""
        return self.tracks_generation and obj.get("spec") != old.get("spec")

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Appliers own what the endpoint changes: not the spec through `status`, not the status otherwise."""
        return ("spec",) if subresource == "status" else ("status",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The rules of one built-in kind. Register it in the `KINDS` of its group's module."""

    strategy: Strategy | None = None
    """`None`: a plain `KindStrategy`. For strategies without a state: servers share them."""
    make_strategy: Callable[[], Strategy] | None = None
    """Makes a strategy that belongs to one server, where it looks at other objects."""
    columns: Sequence[Column] | None = None
    """Table columns after the name (with it where `cells` is given); `None`: when it was created."""
    cells: Callable[[Object], list[Any]] | None = None
    """Makes a whole row, the name included."""
    field_selectors: Mapping[str, str | Callable[[Object], str]] = field(default_factory=dict)
    """Fields that can be selected beyond name and namespace: label to a dotted path or a function."""
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """How subresources answer, where the usual `status` and `scale` will not do."""
    verbs: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Verbs that a function answers instead of storage (as `Resource.handlers`)."""
    converter: Converter | None = None
    """Between versions, where they differ in more than their name."""
