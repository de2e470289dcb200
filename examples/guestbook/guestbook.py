"""Guestbook: the quick start. A kind, a controller that keeps a Deployment and a ConfigMap, two webhooks.

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
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import ConfigMap, Container, ContainerPort, PodSpec, PodTemplateSpec
from kubewright.api.markers import Ge, Le, ListMap, MaxLen, MinLen
from kubewright.api.meta import LabelSelector

FORBIDDEN_NAMES = ("admin", "root")


class GuestbookSpec(Spec):
    """What the guestbook should be."""

    size: Annotated[int, Ge(1), Le(10)]
    """How many instances to run."""

    config_map_name: Annotated[str, MinLen(1), MaxLen(15)]
    """The ConfigMap that holds the settings."""

    type: Literal["Phone", "Address", "Name"] | None = None
    """What guests write down; names, if nothing is said."""


class GuestbookStatus(Status):
    """What was seen of the guestbook."""

    active: str | None = None
    """The Deployment that serves it."""

    standby: list[str] | None = None
    """Instances that are not serving yet."""

    conditions: Annotated[list[Condition] | None, ListMap("type")] = None
    """What is the matter with it."""


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
    """The labels of everything that belongs to a guestbook."""
    return {
        "app.kubernetes.io/name": "guestbook",
        "app.kubernetes.io/instance": guestbook.name,
    }


def settings_for(guestbook: Guestbook) -> ConfigMap:
    """The settings that the instances read."""
    return ConfigMap(
        metadata=ObjectMeta(name=guestbook.spec.config_map_name, labels=labels_of(guestbook)),
        data={"type": guestbook.spec.type or "Name"},
    )


def deployment_for(guestbook: Guestbook) -> Deployment:
    """The instances."""
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
    """Keep the Deployment and the ConfigMap of a guestbook, and say so in its status."""
    changes = await ctx.ensure([settings_for(guestbook), deployment_for(guestbook)])
    if changes:
        ctx.log.info("wrote %s", ", ".join(changes.applied + changes.deleted))
        ctx.event("Normal", "Synced", f"wrote {', '.join(changes.applied + changes.deleted)}")
    status = guestbook.status = guestbook.status or GuestbookStatus()
    status.active = guestbook.metadata.name
    status.conditions = status.conditions or []
    set_condition(
        status.conditions,
        Condition(
            type="Available",
            status="True",
            reason="Synced",
            message="the Deployment and its settings are as they should be",
            observed_generation=guestbook.metadata.generation,
        ),
    )
    await ctx.update_status()


@operator.default(Guestbook)
def fill(guestbook: Guestbook) -> None:
    """Guests leave their names unless something else is asked for."""
    if guestbook.spec.type is None:
        guestbook.spec.type = "Name"


@operator.validate(Guestbook)
def check(new: Guestbook, old: Guestbook | None) -> Iterable[FieldError]:
    """Some names are taken, and settings do not move once they have a place."""
    if new.metadata.name in FORBIDDEN_NAMES:
        yield FieldError.invalid(
            "metadata.name", new.metadata.name, f"must not be {' or '.join(FORBIDDEN_NAMES)}"
        )
    if old is not None and new.spec.config_map_name != old.spec.config_map_name:
        yield FieldError.forbidden(
            "spec.configMapName", "settings stay where they are; make another guestbook"
        )
