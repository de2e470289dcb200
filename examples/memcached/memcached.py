"""Memcached: a Deployment with conditions and a finalizer.

The environment variable `MEMCACHED_IMAGE` sets the image.
"""

from __future__ import annotations

import os
from typing import Annotated

from kubewright import (
    Condition,
    Context,
    CustomResource,
    ObjectMeta,
    Operator,
    Result,
    Spec,
    Status,
    resource,
)
from kubewright.api import Ge, Int32, LabelSelector, Le, ListMap, NotFound, is_controlled_by, set_condition
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import (
    Capabilities,
    Container,
    ContainerPort,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    SeccompProfile,
    SecurityContext,
)

IMAGE = "memcached:1.6.26-alpine3.19"


class MemcachedSpec(Spec):
    """Desired state of memcached."""

    size: Annotated[Int32, Ge(0)] = 1
    """Number of instances."""

    container_port: Annotated[Int32, Ge(1), Le(65535)]
    """Port of the container."""


class MemcachedStatus(Status):
    """Observed state of memcached."""

    conditions: Annotated[list[Condition], ListMap("type")] | None = None
    """Available and Degraded."""


@resource(group="cache.example.com", version="v1alpha1")
class Memcached(CustomResource[MemcachedSpec, MemcachedStatus]):
    """A group of memcached instances."""


operator = Operator("memcached")


def version_of(image: str) -> str:
    """Return the tag of an image, or latest."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag or "latest"


def deployment_for(memcached: Memcached) -> Deployment:
    """Return the desired Deployment, with a restricted security context."""
    image = os.environ.get("MEMCACHED_IMAGE") or IMAGE
    selector = {
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": memcached.name,
        "app.kubernetes.io/managed-by": "memcached-operator",
    }
    container = Container(
        name="memcached",
        image=image,
        image_pull_policy="IfNotPresent",
        command=["memcached", "--memory-limit=64", "-o", "modern", "-v"],
        ports=[ContainerPort(name="memcached", container_port=memcached.spec.container_port)],
        security_context=SecurityContext(
            run_as_non_root=True,
            run_as_user=1001,
            allow_privilege_escalation=False,
            capabilities=Capabilities(drop=["ALL"]),
        ),
    )
    pod = PodSpec(
        containers=[container],
        security_context=PodSecurityContext(
            run_as_non_root=True, seccomp_profile=SeccompProfile(type="RuntimeDefault")
        ),
    )
    labels = {**selector, "app.kubernetes.io/version": version_of(image)}
    return Deployment(
        metadata=ObjectMeta(name=memcached.metadata.name, namespace=memcached.metadata.namespace),
        spec=DeploymentSpec(
            replicas=memcached.spec.size,
            selector=LabelSelector(match_labels=selector),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod),
        ),
    )


def report(memcached: Memcached, type: str, status: str, reason: str, message: str) -> None:
    """Set a condition."""
    generation = memcached.metadata.generation
    set_condition(
        memcached.status,
        Condition(type=type, status=status, reason=reason, message=message, observed_generation=generation),
    )


@operator.reconcile(Memcached, owns=(Deployment,))
async def reconcile(memcached: Memcached, ctx: Context[Memcached]) -> Result | None:
    """Scale the Deployment to the desired size."""
    if not memcached.status.conditions:
        report(memcached, "Available", "Unknown", "Reconciling", "Starting the first reconcile")
        await ctx.update_status()
    name = memcached.name
    try:
        deployment = await ctx.client.get(Deployment, name, namespace=memcached.metadata.namespace)
    except NotFound:
        await ctx.client.create(ctx.own(deployment_for(memcached)))
        return Result(requeue_after=60)
    if not is_controlled_by(deployment, memcached):
        report(memcached, "Available", "False", "Conflict", f"Deployment {name} has another owner")
        await ctx.update_status()
        return None
    assert deployment.spec is not None
    if deployment.spec.replicas != memcached.spec.size:
        deployment.spec.replicas = memcached.spec.size
        await ctx.client.update(deployment)
    message = f"Deployment {name} has {memcached.spec.size} replicas"
    report(memcached, "Available", "True", "Reconciling", message)
    await ctx.update_status()
    return None


@operator.finalize(Memcached)
async def finalize(memcached: Memcached, ctx: Context[Memcached]) -> None:
    """Report the deletion; the object is deleted when this has succeeded."""
    name = memcached.metadata.name
    report(memcached, "Degraded", "Unknown", "Finalizing", f"Cleanup of {name} has started")
    await ctx.update_status()
    ctx.event("Warning", "Deleting", f"{name} is being deleted from {memcached.metadata.namespace}")
    report(memcached, "Degraded", "True", "Finalizing", f"Cleanup of {name} is finished")
    await ctx.update_status()
