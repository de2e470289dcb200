"""Whole objects and free-form data inside a spec."""

from __future__ import annotations

from typing import Annotated, Any

from kubewright.api.core.v1 import Container, PodTemplateSpec, Toleration
from kubewright.api.declarations import resource
from kubewright.api.markers import (
    EmbeddedResource,
    ListMap,
    MaxDescription,
    PreserveUnknownFields,
    Schemaless,
    TypeOverride,
)
from kubewright.api.meta import CustomResource, ObjectMeta
from kubewright.api.objects import Spec, Struct


class ClaimTemplate(Struct):
    """A claim to make for each replica."""

    metadata: ObjectMeta | None = None
    storage_class_name: str | None = None


class BundleSpec(Spec):
    """Parts of the bundle."""

    template: Annotated[PodTemplateSpec, MaxDescription(0)]
    """The pods to run."""

    sidecars: Annotated[list[Container], ListMap("name")] | None = None
    """Containers to add to each pod."""

    tolerations: list[Toleration] | None = None
    claims: list[ClaimTemplate] | None = None

    manifest: Annotated[
        dict[str, Any], Schemaless, TypeOverride("object"), EmbeddedResource, PreserveUnknownFields
    ]
    """Any object, applied as it is."""

    values: Annotated[dict[str, Any], Schemaless, PreserveUnknownFields] | None = None
    """Settings that only the chart understands."""

    anything: Any = None


@resource(group="bundle.example.com", version="v1", plural="bundles", categories=("all",))
class Bundle(CustomResource[BundleSpec, None]):
    """Things that are installed together."""
