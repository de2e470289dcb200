"""The kind of sample-controller: a protected group that requires an approval annotation."""

from __future__ import annotations

from typing import Annotated

from kubewright.api import CustomResource, Ge, Int32, Le, Spec, Status, resource


class FooSpec(Spec):
    """Desired state of a Foo."""

    deployment_name: str
    replicas: Annotated[Int32, Ge(1), Le(10)]


class FooStatus(Status):
    """Observed state of a Foo."""

    available_replicas: Int32 | None = None


@resource(
    group="samplecontroller.k8s.io",
    version="v1alpha1",
    annotations={"api-approved.kubernetes.io": "unapproved, experimental-only"},
)
class Foo(CustomResource[FooSpec, FooStatus]):
    """Manages a Deployment."""
