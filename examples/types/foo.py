"""The sample controller's kind: a protected group that needs an approval, no status type needed by hand."""

from __future__ import annotations

from typing import Annotated

from kubewright.api.declarations import resource
from kubewright.api.markers import Ge, Int32, Le
from kubewright.api.meta import CustomResource
from kubewright.api.objects import Spec, Status


class FooSpec(Spec):
    """A deployment to keep."""

    deployment_name: str
    replicas: Annotated[Int32, Ge(1), Le(10)]


class FooStatus(Status):
    """What the deployment has."""

    available_replicas: Int32 | None = None


@resource(
    group="samplecontroller.k8s.io",
    version="v1alpha1",
    annotations={"api-approved.kubernetes.io": "unapproved, experimental-only"},
)
class Foo(CustomResource[FooSpec, FooStatus]):
    """Keeps a deployment."""
