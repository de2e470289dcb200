"""The sample API server of Kubernetes: Flunders in two versions, and Fischers that ban names of Flunders.

The group, the kinds, their fields and field numbers, the conversion, the rules and the admission plug-in are
those of k8s.io/sample-apiserver, so its manifests work with this server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from msgspec import field

from kubewright import APIServerApp, CustomResource, Denied, FieldError, Spec, Status, resource
from kubewright.api import Atomic, MetaObject
from kubewright.api.markers import FieldNumber
from kubewright.extension import ObjectReader

GROUP = "wardle.example.com"


class FlunderSpec(Spec):
    """What a Flunder refers to."""

    flunder_reference: Annotated[str, FieldNumber(1)] = ""
    """A name of another flunder, mutually exclusive to the FischerReference."""
    fischer_reference: Annotated[str, FieldNumber(2)] = ""
    """A name of a fischer, mutually exclusive to the FlunderReference."""
    reference_type: Annotated[str, FieldNumber(3)] = ""
    """The reference type."""


class FlunderStatus(Status):
    """The status of a Flunder, which is empty."""


@resource(group=GROUP, version="v1beta1", hub=True)
class Flunder(CustomResource[FlunderSpec, FlunderStatus]):
    """An example type with a spec and a status."""

    spec: FlunderSpec = field(default_factory=FlunderSpec)


class FlunderSpecV1Alpha1(Spec):
    """What a Flunder refers to, in one field."""

    reference: Annotated[str, FieldNumber(1)] = ""
    """A name of another flunder or fischer, depending on the reference type."""
    reference_type: Annotated[str | None, FieldNumber(2)] = None
    """The reference type, defaults to "Flunder" if reference is set."""


@resource(group=GROUP, version="v1alpha1", kind="Flunder")
class FlunderV1Alpha1(CustomResource[FlunderSpecV1Alpha1, FlunderStatus]):
    """An example type with a spec and a status."""

    spec: FlunderSpecV1Alpha1 = field(default_factory=FlunderSpecV1Alpha1)

    def convert_to(self, hub: type[Flunder]) -> Flunder:
        """Convert to v1beta1."""
        spec = FlunderSpec()
        match self.spec.reference_type:
            case "Flunder":
                spec = FlunderSpec(flunder_reference=self.spec.reference, reference_type="Flunder")
            case "Fischer":
                spec = FlunderSpec(fischer_reference=self.spec.reference, reference_type="Fischer")
        return hub(metadata=self.metadata, spec=spec, status=self.status)

    @classmethod
    def convert_from(cls, flunder: Flunder) -> Self:
        """Convert from v1beta1."""
        spec = FlunderSpecV1Alpha1()
        match flunder.spec.reference_type:
            case "Flunder":
                spec = FlunderSpecV1Alpha1(reference=flunder.spec.flunder_reference, reference_type="Flunder")
            case "Fischer":
                spec = FlunderSpecV1Alpha1(reference=flunder.spec.fischer_reference, reference_type="Fischer")
        return cls(metadata=flunder.metadata, spec=spec, status=flunder.status)


@resource(group=GROUP, version="v1alpha1", scope="Cluster")
class Fischer(MetaObject):
    """A list of names that Flunders must not have."""

    disallowed_flunders: Annotated[list[str], Atomic, FieldNumber(2)] = []
    """DisallowedFlunders holds a list of Flunder.Names that are disallowed."""


app = APIServerApp("wardle")
app.add(Flunder, FlunderV1Alpha1, storage=FlunderV1Alpha1)
app.add(Fischer)


@app.default(FlunderV1Alpha1)
def set_defaults(flunder: FlunderV1Alpha1) -> None:
    if flunder.spec.reference and not flunder.spec.reference_type:
        flunder.spec.reference_type = "Flunder"


@app.validate(Flunder)
def validate(flunder: Flunder) -> Iterable[FieldError]:
    spec = flunder.spec
    given = {"Flunder": spec.flunder_reference, "Fischer": spec.fischer_reference}
    fields = {"Flunder": "spec.flunderReference", "Fischer": "spec.fischerReference"}
    if all(given.values()):
        text = "cannot be set with flunderReference at the same time"
        yield FieldError.invalid(fields["Fischer"], spec.fischer_reference, text)
    else:
        for kind, name in given.items():
            if name and spec.reference_type != kind:
                yield FieldError.invalid(fields[kind], name, f"cannot be set if referenceType is not {kind}")
            elif not name and spec.reference_type == kind:
                yield FieldError.invalid(fields[kind], name, f"cannot be empty if referenceType is {kind}")
    if spec.reference_type not in ("", *given):
        yield FieldError.invalid("spec.referenceType", spec.reference_type, "must be Flunder or Fischer")


@app.admit(Flunder, on=("create",), reads=(Fischer,))
async def ban_flunders(flunder: Flunder, objects: ObjectReader) -> None:
    for fischer in await objects.list(Fischer):
        if flunder.name in fischer.disallowed_flunders:
            raise Denied("this name may not be used, please change the resource name")
