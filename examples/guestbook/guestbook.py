"""Guestbook, the quick start: a kind, a controller for a Deployment and a ConfigMap, and two webhooks.

kubewright up --kubeconfig kubeconfig
KUBECONFIG=kubeconfig kubewright run guestbook --development
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from kubewright import (
    Column,
    Condition,
    Context,
    CustomResource,
    FieldError,
    ObjectMeta,
    Operator,
    Spec,
    Status,
    resource,
    set_condition,
)
from kubewright.api import Ge, LabelSelector, Le, ListMap, MaxLen, MinLen
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import ConfigMap, Container, ContainerPort, PodSpec, PodTemplateSpec

FORBIDDEN_NAMES = ("admin", "root")


class GuestbookSpec(Spec):
    """Desired state of a guestbook."""

    size: Annotated[int, Ge(1), Le(10)]
    """Number of replicas."""

    config_map_name: Annotated[str, MinLen(1), MaxLen(15)]
    """Name of the ConfigMap with the settings."""

    type: Literal["Phone", "Address", "Name"] | None = None
    """Type of the entries; Name by default."""


class GuestbookStatus(Status):
    """Observed state of a guestbook."""

    active: str | None = None
    """Name of the Deployment."""

    standby: list[str] | None = None
    """Names of instances that are not ready."""

    conditions: Annotated[list[Condition] | None, ListMap("type")] = None
    """Current conditions."""


@resource(
    group="webapp.my.domain",
    version="v1",
    short_names=("gb",),
    columns=(
        Column("Size", ".spec.size", "integer"),
        Column("Type", ".spec.type"),
        Column("Active", ".status.active"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class Guestbook(CustomResource[GuestbookSpec, GuestbookStatus]):
    """A guestbook."""


operator = Operator("guestbook")


def labels_of(guestbook: Guestbook) -> dict[str, str]:
    """Return the labels of the objects of a guestbook."""
    return {
        "app.kubernetes.io/name": "guestbook",
        "app.kubernetes.io/instance": guestbook.name,
    }


def settings_for(guestbook: Guestbook) -> ConfigMap:
    """Return the desired ConfigMap."""
    return ConfigMap(
        metadata=ObjectMeta(name=guestbook.spec.config_map_name, labels=labels_of(guestbook)),
        data={"type": guestbook.spec.type or "Name"},
    )


def deployment_for(guestbook: Guestbook) -> Deployment:
    """Return the desired Deployment."""
    labels = labels_of(guestbook)
    container = Container(
        name="guestbook",
        image="registry.k8s.io/guestbook:v3",
        ports=[ContainerPort(name="http", container_port=3000)],
    )
    return Deployment(
        metadata=ObjectMeta(name=guestbook.metadata.name, labels=labels),
        spec=DeploymentSpec(
            replicas=guestbook.spec.size,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container])
            ),
        ),
    )


@operator.reconcile(Guestbook, owns=(Deployment, ConfigMap))
async def reconcile(guestbook: Guestbook, ctx: Context[Guestbook]) -> None:
    """Apply the Deployment and the ConfigMap of a guestbook, and update its status."""
    result = await ctx.ensure([settings_for(guestbook), deployment_for(guestbook)])
    if result:
        changed = ", ".join(result.applied + result.deleted)
        ctx.log.info("synced owned objects", extra={"changed": changed})
        ctx.event("Normal", "Synced", f"Updated {changed}")
    status = guestbook.status
    status.active = guestbook.metadata.name
    status.conditions = status.conditions or []
    set_condition(
        status.conditions,
        Condition(
            type="Available",
            status="True",
            reason="Synced",
            message="The Deployment and the ConfigMap are up to date",
            observed_generation=guestbook.metadata.generation,
        ),
    )
    await ctx.update_status()


@operator.default(Guestbook)
def set_defaults(guestbook: Guestbook) -> None:
    """Set the type to Name if it is missing."""
    if guestbook.spec.type is None:
        guestbook.spec.type = "Name"


@operator.validate(Guestbook)
def validate(new: Guestbook, old: Guestbook | None) -> Iterable[FieldError]:
    """Reject reserved names and changes of the ConfigMap name."""
    if new.metadata.name in FORBIDDEN_NAMES:
        yield FieldError.invalid(
            "metadata.name", new.metadata.name, f"must not be {' or '.join(FORBIDDEN_NAMES)}"
        )
    if old is not None and new.spec.config_map_name != old.spec.config_map_name:
        yield FieldError.forbidden("spec.configMapName", "field is immutable; create another guestbook")
