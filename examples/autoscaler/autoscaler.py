"""An autoscaler like VerticalPodAutoscaler: recommends resource requests from the usage of containers.

A *metrics source* returns the usage of the containers of a workload; it is a parameter, so that tests can
replace the monitoring system. The recommendation is written to the status. `updateMode` controls how it is
applied: `Off` not at all, `Initial` only to workloads without running pods, `Auto` to all workloads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from kubewright import (
    Column,
    Condition,
    Context,
    CustomResource,
    Operator,
    Quantity,
    Request,
    Result,
    Spec,
    Status,
    resource,
    set_condition,
)
from kubewright.api import ListMap, MinLen, NotFound, Rbac, Struct, field
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ResourceRequirements

MARGIN = Decimal("1.15")
"""Ratio of the recommended request to the usage."""
PERMISSIONS = [Rbac(groups=("apps",), resources=("deployments",), verbs=("patch",))]
EVERY = 60.0
"""Seconds between two reads of the metrics."""

Usage = Mapping[str, Mapping[str, Quantity]]
"""Peak usage of each resource, by container."""
Metrics = Callable[[Deployment], Awaitable[Usage]]
"""Returns the usage of the containers of a workload."""


class UpdateMode(StrEnum):
    """When recommendations are applied."""

    OFF = "Off"
    INITIAL = "Initial"
    AUTO = "Auto"


class TargetRef(Struct):
    """Reference to the scaled workload."""

    api_version: str = "apps/v1"
    kind: Annotated[str, MinLen(1)]
    name: Annotated[str, MinLen(1)]


class UpdatePolicy(Struct):
    """How recommendations are applied."""

    update_mode: UpdateMode = UpdateMode.AUTO


class ContainerPolicy(Struct):
    """Bounds of one container; the name `*` selects all other containers."""

    container_name: Annotated[str, MinLen(1)]
    min_allowed: dict[str, Quantity] | None = None
    max_allowed: dict[str, Quantity] | None = None


class AutoscalerSpec(Spec):
    """The workload to scale and the bounds of its containers."""

    target_ref: TargetRef
    update_policy: UpdatePolicy = field(default_factory=UpdatePolicy)
    container_policies: Annotated[list[ContainerPolicy], ListMap("containerName")] | None = None


class Recommendation(Struct):
    """Recommended requests of one container."""

    container_name: str
    target: dict[str, Quantity]


class AutoscalerStatus(Status):
    """The current recommendation."""

    recommendations: Annotated[list[Recommendation], ListMap("containerName")] | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(
    group="autoscaling.example.com",
    version="v1",
    short_names=("va",),
    columns=(
        Column("Target", ".spec.targetRef.name"),
        Column("Mode", ".spec.updatePolicy.updateMode"),
        Column("Provided", '.status.conditions[?(@.type=="RecommendationProvided")].status'),
    ),
)
class VerticalAutoscaler(CustomResource[AutoscalerSpec, AutoscalerStatus]):
    """Sets the resource requests of a workload from its usage."""


async def no_metrics(deployment: Deployment) -> Usage:
    """A source without metrics; pass another one to `make_operator`."""
    return {}


def recommend(used: Mapping[str, Quantity], policy: ContainerPolicy | None) -> dict[str, Quantity]:
    """Return the usage of a container plus a margin, within the bounds."""
    target = {}
    for name, amount in used.items():
        wanted = amount * MARGIN
        if policy is not None:
            least, most = (policy.min_allowed or {}).get(name), (policy.max_allowed or {}).get(name)
            if least is not None and wanted < least:
                wanted = least
            if most is not None and wanted > most:
                wanted = most
        target[name] = wanted
    return target


class Autoscaling:
    """Writes recommendations and applies them."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics

    async def reconcile(
        self, autoscaler: VerticalAutoscaler, ctx: Context[VerticalAutoscaler]
    ) -> Result | None:
        """Read the usage, write the recommendation, and apply it if the mode allows."""
        target = autoscaler.spec.target_ref
        if target.kind != "Deployment":
            await self._say(autoscaler, "False", "ConfigUnsupported", f"{target.kind} cannot be scaled", ctx)
            return None
        try:
            deployment = await ctx.client.get(
                Deployment, target.name, namespace=autoscaler.metadata.namespace
            )
        except NotFound:
            await self._say(autoscaler, "False", "NoTarget", f"there is no Deployment {target.name}", ctx)
            return None
        found = self._recommendations(autoscaler, await self.metrics(deployment), deployment)
        if not found:
            await self._say(autoscaler, "False", "NoMetrics", "nothing is known of its containers", ctx)
            return Result(requeue_after=EVERY)
        autoscaler.status.recommendations = found
        await self._say(autoscaler, "True", "FromMetrics", f"for {len(found)} containers", ctx)
        if self._may_change(autoscaler, deployment) and _give(deployment, found):
            await ctx.client.update(deployment)
            ctx.event("Normal", "Resized", f"gave the containers of {target.name} what they need")
        return Result(requeue_after=EVERY)

    def _recommendations(
        self, autoscaler: VerticalAutoscaler, usage: Usage, deployment: Deployment
    ) -> list[Recommendation]:
        policies = {each.container_name: each for each in autoscaler.spec.container_policies or ()}
        return [
            Recommendation(
                container_name=name, target=recommend(usage[name], policies.get(name) or policies.get("*"))
            )
            for name in _containers(deployment)
            if usage.get(name)
        ]

    def _may_change(self, autoscaler: VerticalAutoscaler, deployment: Deployment) -> bool:
        mode = autoscaler.spec.update_policy.update_mode
        if mode is UpdateMode.INITIAL:
            return not (deployment.status is not None and deployment.status.replicas)
        return mode is UpdateMode.AUTO

    async def _say(
        self,
        autoscaler: VerticalAutoscaler,
        status: str,
        reason: str,
        message: str,
        ctx: Context[VerticalAutoscaler],
    ) -> None:
        provided = Condition(type="RecommendationProvided", status=status, reason=reason, message=message)
        set_condition(autoscaler.status, provided)
        await ctx.update_status()


def _containers(deployment: Deployment) -> list[str]:
    template = deployment.spec.template if deployment.spec is not None else None
    pod = template.spec if template is not None else None
    return [each.name or "" for each in (pod.containers if pod is not None else None) or ()]


def _give(deployment: Deployment, recommendations: list[Recommendation]) -> bool:
    """Set the requests of the containers; return whether they changed."""
    wanted = {each.container_name: each.target for each in recommendations}
    assert deployment.spec is not None
    assert deployment.spec.template is not None
    assert deployment.spec.template.spec is not None
    changed = False
    for container in deployment.spec.template.spec.containers or ():
        target = wanted.get(container.name or "")
        if target is None:
            continue
        container.resources = container.resources or ResourceRequirements()
        requests = {**(container.resources.requests or {}), **target}
        if requests != container.resources.requests:
            container.resources.requests = requests
            changed = True
    return changed


def make_operator(metrics: Metrics = no_metrics) -> Operator:
    """Return the operator with a metrics source."""
    made = Operator("autoscaler")
    followed: dict[Request, set[Request]] = {}
    autoscaling = Autoscaling(metrics)

    @made.reconcile(
        VerticalAutoscaler,
        watches=[
            (Deployment, lambda deployment: followed.get(_request(deployment), ())),
        ],
    )
    async def reconcile(autoscaler: VerticalAutoscaler, ctx: Context[VerticalAutoscaler]) -> Result | None:
        target = Request(autoscaler.namespace, autoscaler.spec.target_ref.name)
        followed.setdefault(target, set()).add(ctx.request)
        return await autoscaling.reconcile(autoscaler, ctx)

    return made


def _request(deployment: Deployment) -> Request:
    return Request.of(deployment)


operator = make_operator()
