"""Foo: a controller for a Deployment, after Kubernetes' sample-controller.

A Deployment of the same name with another owner is not changed; an event and an error report it.
"""

from __future__ import annotations

from typing import Annotated

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, Status, resource
from kubewright.api import Ge, Int32, LabelSelector, Le, NotFound, is_controlled_by
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec


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


class ResourceExists(Exception):
    """The Deployment has another owner."""


operator = Operator("foo")


def deployment_for(foo: Foo) -> Deployment:
    """Return the desired Deployment of a Foo."""
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
    """Create the Deployment, set its replicas, and report the available ones."""
    if not foo.spec.deployment_name:
        ctx.log.error("spec.deploymentName is empty, not reconciling")
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
    if foo.status.available_replicas != available:
        foo.status.available_replicas = available
        await ctx.update_status()
    ctx.event("Normal", "Synced", "Foo synced successfully")
