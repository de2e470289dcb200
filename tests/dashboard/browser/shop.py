"""The operator of the browser tests: shops that can be broken and healed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any, Literal

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
from kubewright.api import BarsPanel, DashboardView, FactsPanel, TablePanel, ViewField
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import ConfigMap, Container, ContainerPort, PodSpec, PodTemplateSpec
from kubewright.api.markers import Ge, Le, ListMap, MinLen
from kubewright.api.meta import LabelSelector
from kubewright.client import patches


class ShopSpec(Spec):
    """Desired state of a shop."""

    replicas: Annotated[int, Ge(0), Le(20)] = 2
    """Number of servers."""

    image: Annotated[str, MinLen(1)] = "registry.example.com/shop:1"
    """Image of the servers."""

    currency: Literal["EUR", "USD", "JPY"] | None = None
    """Currency of the prices; EUR by default."""

    backend: Literal["Available", "Unreachable", "Contested"] = "Available"
    """State of the payment backend, for tests."""


class ShopStatus(Status):
    """Observed state of a shop."""

    ready_replicas: int | None = None
    """Number of servers that are ready."""

    conditions: Annotated[list[Condition] | None, ListMap("type")] = None
    """Current conditions."""


@resource(
    group="store.example.com",
    version="v1",
    columns=(
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("Currency", ".spec.currency"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    dashboard=DashboardView(
        columns=(ViewField("Servers", ".status.readyReplicas", "number"),),
        panels=(
            FactsPanel(
                "Shop",
                (
                    ViewField("Currency", ".spec.currency"),
                    ViewField("State", ".status.conditions[0].reason", "status"),
                ),
            ),
            TablePanel(
                "Checks",
                ".status.conditions",
                (
                    ViewField("Check", ".type"),
                    ViewField("Result", ".status", "status"),
                    ViewField("Since", ".lastTransitionTime", "time"),
                ),
            ),
            BarsPanel("Generations", ".status.conditions", label=".type", value=".observedGeneration"),
        ),
    ),
)
class Shop(CustomResource[ShopSpec, ShopStatus]):
    """An online shop: its servers and their settings."""


operator = Operator("shop")


@operator.reconcile(Shop, owns=(Deployment, ConfigMap), name="shop")
async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
    """Apply the Deployment and the ConfigMap of a shop, and report its state."""
    if shop.spec.backend == "Unreachable":
        await _report(ctx, "False", "BackendUnreachable", "The payment backend does not respond")
        raise ConnectionError("payment backend of the shop is unreachable: connect timeout after 2 s")
    labels = {"app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": shop.name}
    container = Container(
        name="server", image=shop.spec.image, ports=[ContainerPort(name="http", container_port=8080)]
    )
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container]))
    deployment = Deployment(
        metadata=ObjectMeta(name=shop.name, labels=labels),
        spec=DeploymentSpec(
            replicas=shop.spec.replicas, selector=LabelSelector(match_labels=labels), template=template
        ),
    )
    settings = ConfigMap(
        metadata=ObjectMeta(name=f"{shop.name}-settings", labels=labels),
        data={"currency": shop.spec.currency or "EUR", "title": f"Shop {shop.name}"},
    )
    result = await ctx.ensure([settings, deployment])
    if result:
        ctx.event("Normal", "Synced", f"Updated {', '.join(result.applied + result.deleted)}")
    current = await ctx.client.get(Deployment, shop.name, namespace=shop.namespace)
    ready = (current.status.ready_replicas if current.status else None) or 0
    shop.status.ready_replicas = ready
    if ready >= shop.spec.replicas:
        await _report(ctx, "True", "ServersReady", f"{ready} of {shop.spec.replicas} servers are ready")
    else:
        await _report(ctx, "False", "Progressing", f"{ready} of {shop.spec.replicas} servers are ready")


async def _report(ctx: Context[Shop], ready: str, reason: str, message: str) -> None:
    conditions = ctx.object.status.conditions = ctx.object.status.conditions or []
    generation = ctx.object.metadata.generation
    stalled = "True" if reason == "BackendUnreachable" else "False"
    for type_, status in (("Ready", ready), ("Stalled", stalled)):
        condition = Condition(
            type=type_, status=status, reason=reason, message=message, observed_generation=generation
        )
        set_condition(conditions, condition)
    await ctx.update_status()


@operator.reconcile(Shop, owns=(Deployment,), name="scaler")
async def scale(shop: Shop, ctx: Context[Shop]) -> None:
    """Scale the Deployment of a contested shop, against its other controller."""
    if shop.spec.backend != "Contested":
        return
    await asyncio.sleep(0.15)
    change: dict[str, Any] = {"spec": {"replicas": shop.spec.replicas + 1}}
    await ctx.client.patch(
        Deployment,
        shop.name,
        patches.merge_patch(change),
        namespace=shop.namespace,
        field_manager="scaler",
    )


@operator.default(Shop)
def set_defaults(shop: Shop) -> None:
    """Set the currency if it is missing."""
    if shop.spec.currency is None:
        shop.spec.currency = "EUR"


@operator.validate(Shop)
def validate(new: Shop, old: Shop | None) -> Iterable[FieldError]:
    """Reject a change of the currency."""
    if old is not None and old.spec.currency is not None and new.spec.currency != old.spec.currency:
        yield FieldError.forbidden("spec.currency", "field is immutable; create another shop")
