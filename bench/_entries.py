"""A kind with two versions, as Flunder of the sample API server of Kubernetes."""

from __future__ import annotations

from typing import Self

from kubewright.api import CustomResource, Spec, resource
from kubewright.apiserver import Resource
from kubewright.apiserver.resources.typed import resource_of

GROUP = "bench.example.com"


class EntrySpec(Spec):
    """Spec of the stored version."""

    reference: str = ""
    reference_type: str = "Entry"


class OldEntrySpec(Spec):
    """Spec of the version that is not stored."""

    ref: str = ""
    ref_type: str = "Entry"


@resource(group=GROUP, version="v2", hub=True)
class Entry(CustomResource[EntrySpec, None]):
    """An entry."""


@resource(group=GROUP, version="v1", kind="Entry")
class OldEntry(CustomResource[OldEntrySpec, None]):
    """An entry in another shape."""

    def convert_to(self, hub: type[Entry]) -> Entry:
        """Convert to the stored version."""
        spec = EntrySpec(reference=self.spec.ref, reference_type=self.spec.ref_type)
        return hub(metadata=self.metadata, spec=spec)

    @classmethod
    def convert_from(cls, hub: Entry) -> Self:
        """Convert from the stored version."""
        spec = OldEntrySpec(ref=hub.spec.reference, ref_type=hub.spec.reference_type)
        return cls(metadata=hub.metadata, spec=spec)


def entries() -> Resource:
    """Return the resource."""
    return resource_of(Entry, OldEntry)
