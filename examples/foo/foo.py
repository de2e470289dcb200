"""Foo: a Deployment kept in shape, in the manner of Kubernetes' sample-controller.

A Deployment of that name which belongs to somebody else is not touched: an event and an error say so.
"""

from __future__ import annotations

from typing import Annotated

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec
from kubewright.api.errors import NotFound
from kubewright.api.markers import Ge, Int32, Le
from kubewright.api.meta import LabelSelector
from kubewright.api.owners import is_controlled_by


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


class ResourceExists(Exception):
    """The Deployment belongs to somebody else."""


operator = Operator("foo")


def deployment_for(foo: Foo) -> Deployment:
    """The Deployment that a Foo wants."""
    labels = {"app": "nginx", "controller": foo.name}
    return Deployment(
        metadata=ObjectMeta(name=foo.spec.deployment_name, namespace=foo.metadata.namespace),
        spec=DeploymentSpec(
            replicas=foo.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels),
                spec=PodSpec(containers=[Container(name="nginx", image="nginx:latest")]),
            ),
        ),
    )


@operator.reconcile(Foo, owns=(Deployment,), workers=2)
async def reconcile(foo: Foo, ctx: Context[Foo]) -> None:
    """Make the Deployment, keep its size, and tell how much of it is there."""
    if not foo.spec.deployment_name:
        ctx.log.error("spec.deploymentName is empty; nothing to do until it is not")
        return
    try:
        deployment = await ctx.client.get(
            Deployment, foo.spec.deployment_name, namespace=foo.metadata.namespace
        )
    except NotFound:
        deployment = await ctx.client.create(ctx.own(deployment_for(foo)))
    if not is_controlled_by(deployment, foo):
        message = f"Resource {deployment.metadata.name!r} already exists and is not managed by Foo"
        ctx.event("Warning", "ErrResourceExists", message)
        raise ResourceExists(message)
    assert deployment.spec is not None
    if deployment.spec.replicas != foo.spec.replicas:
        deployment.spec.replicas = foo.spec.replicas
        await ctx.client.update(deployment)
    available = (deployment.status.available_replicas if deployment.status is not None else None) or 0
    foo.status = foo.status or FooStatus()
    if foo.status.available_replicas != available:
        foo.status.available_replicas = available
        await ctx.update_status()
    ctx.event("Normal", "Synced", "Foo synced successfully")
