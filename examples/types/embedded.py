"""Whole objects and free-form data inside a spec."""

from __future__ import annotations

from typing import Annotated, Any

from kubewright.api import (
    CustomResource,
    EmbeddedResource,
    ListMap,
    MaxDescription,
    ObjectMeta,
    PreserveUnknownFields,
    Schemaless,
    Spec,
    Struct,
    TypeOverride,
    resource,
)
from kubewright.api.core.v1 import Container, PodTemplateSpec, Toleration


class ClaimTemplate(Struct):
    """Template of a claim per replica."""

    metadata: ObjectMeta | None = None
    storage_class_name: str | None = None


class BundleSpec(Spec):
    """Contents of a bundle."""

    template: Annotated[PodTemplateSpec, MaxDescription(0)]
    """Template of the pods."""

    sidecars: Annotated[list[Container], ListMap("name")] | None = None
    """Containers that are added to each pod."""

    tolerations: list[Toleration] | None = None
    claims: list[ClaimTemplate] | None = None

    manifest: Annotated[
        dict[str, Any], Schemaless, TypeOverride("object"), EmbeddedResource, PreserveUnknownFields
    ]
    """Any object, applied unchanged."""

    values: Annotated[dict[str, Any], Schemaless, PreserveUnknownFields] | None = None
    """Free-form settings of the chart."""

    anything: Any = None


@resource(group="bundle.example.com", version="v1", plural="bundles", categories=("all",))
class Bundle(CustomResource[BundleSpec, None]):
    """Objects that are installed together."""
