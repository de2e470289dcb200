"""The number of replicas that each metric of an autoscaler proposes, with the status of the metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kubewright.api.autoscaling.v2 import (
    ContainerResourceMetricStatus,
    ExternalMetricStatus,
    HorizontalPodAutoscaler,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricStatus,
    ResourceMetricStatus,
)
from kubewright.api.core.v1 import Pod
from kubewright.api.selectors.label_selectors import EVERYTHING, Selector, format_label_selector, selector_of
from kubewright.api.values.quantity import Quantity
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pod_metrics import MetricNotFound, MetricsSource, total_usage

from .replica_calculation import (
    MetricError,
    PodGroups,
    Tolerance,
    average,
    group_pods,
    pod_requests,
    replicas_by_average,
    replicas_by_ratio,
    replicas_by_total,
    utilization,
)


class Proposal(NamedTuple):
    """The result of one metric."""

    replicas: int
    description: str
    """Name of the metric in conditions and events."""
    status: MetricStatus


class ProposalError(Exception):
    """A metric has no result; `reason` is that of the event and the condition."""

    def __init__(self, reason: str, message: str, summary: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.summary = summary


_REASONS = {
    "Resource": "FailedGetResourceMetric",
    "ContainerResource": "FailedGetContainerResourceMetric",
    "Pods": "FailedGetPodsMetric",
    "Object": "FailedGetObjectMetric",
    "External": "FailedGetExternalMetric",
}


@dataclass(slots=True)
class MetricProposals:
    """Computes the proposals of one autoscaler."""

    manager: ComponentManager
    source: MetricsSource
    autoscaler: HorizontalPodAutoscaler
    spec_replicas: int
    status_replicas: int
    pods: list[Pod]

    async def propose(self, spec: MetricSpec) -> Proposal:
        """Return the proposal of a metric; raises `ProposalError`."""
        kind = spec.type or ""
        try:
            if kind == "Resource" and spec.resource is not None:
                return await self._resource(
                    spec.resource.name or "", "", spec.resource.target or MetricTarget()
                )
            if kind == "ContainerResource" and spec.container_resource is not None:
                found = spec.container_resource
                return await self._resource(
                    found.name or "", found.container or "", found.target or MetricTarget()
                )
            if kind == "Pods" and spec.pods is not None:
                return await self._pods(
                    spec.pods.metric or MetricIdentifier(), spec.pods.target or MetricTarget()
                )
            if kind == "Object" and spec.object is not None:
                return await self._object(spec)
            if kind == "External" and spec.external is not None:
                return await self._external(spec)
        except (MetricError, MetricNotFound) as error:
            raise ProposalError(_REASONS[kind], str(error), f"{_summary(spec)}: {error}") from None
        text = f'unknown metric source type "{kind}"'
        raise ProposalError("InvalidMetricSourceType", text, text)

    @property
    def _tolerance(self) -> Tolerance:
        behavior = self.autoscaler.spec.behavior if self.autoscaler.spec is not None else None
        down = behavior.scale_down.tolerance if behavior and behavior.scale_down else None
        up = behavior.scale_up.tolerance if behavior and behavior.scale_up else None
        return Tolerance(
            0.1 if down is None else down.as_approximate_float(),
            0.1 if up is None else up.as_approximate_float(),
        )

    async def _resource(self, resource: str, container: str, target: MetricTarget) -> Proposal:
        values = {}
        for pod in self.pods:
            usage = await self.source.containers(pod)
            chosen = usage.values() if not container else [usage[container]] if container in usage else []
            total = total_usage(chosen)
            if resource in total:
                values[pod.name] = total[resource].as_int(-3)
        wording = "usage" if target.average_value is not None else "utilization"
        try:
            if not values:
                text = "no metrics returned from resource metrics API"
                raise MetricError(f"unable to get metrics for resource {resource}: {text}")
            return self._resource_proposal(resource, container, target, values)
        except MetricError as error:
            raise MetricError(f"failed to get {resource} {wording}: {error}") from None

    def _resource_proposal(
        self, resource: str, container: str, target: MetricTarget, values: dict[str, int]
    ) -> Proposal:
        pods = self._required_pods()
        groups = group_pods(pods, values, resource=resource, now=self.manager.now())
        if not values:
            raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
        current = MetricValueStatus()
        if target.average_value is not None:
            wanted = target.average_value.as_int(-3)
            usage = average(values)
            replicas = self._replicas_by_average(values, groups, wanted)
            description = f"{resource} resource"
        elif target.average_utilization is not None:
            requests = pod_requests(pods, resource, container)
            percent_target = target.average_utilization
            _, percent, usage = utilization(values, requests, percent_target)
            replicas = replicas_by_ratio(
                self.spec_replicas,
                values,
                groups,
                self._tolerance,
                ratio_of=lambda metrics: utilization(metrics, requests, percent_target)[0],
                fallback=lambda name: requests[name] * max(100, percent_target) // 100,
            )
            current.average_utilization = percent
            part = "container resource" if container else "resource"
            description = f"{resource} {part} utilization (percentage of request)"
        else:
            raise MetricError(
                "invalid resource metric source: neither an average utilization target nor an average "
                "value (usage) target was set"
            )
        current.average_value = _milli(usage, binary=resource == "memory")
        if container:
            listed = ContainerResourceMetricStatus(name=resource, container=container, current=current)
            status = MetricStatus(type="ContainerResource", container_resource=listed)
        else:
            status = MetricStatus(
                type="Resource", resource=ResourceMetricStatus(name=resource, current=current)
            )
        return Proposal(replicas, description, status)

    def _replicas_by_average(self, values: dict[str, int], groups: PodGroups, wanted: int) -> int:
        """Return the replicas at which the pods have the average `wanted`."""
        return replicas_by_ratio(
            self.spec_replicas,
            values,
            groups,
            self._tolerance,
            ratio_of=lambda metrics: average(metrics) / wanted,
            fallback=lambda name: wanted,
        )

    async def _pods(self, metric: MetricIdentifier, target: MetricTarget) -> Proposal:
        name, selector = metric.name or "", _metric_selector(metric)
        values = {}
        for pod in self.pods:
            value = await self.source.pod_metric(pod, name, selector)
            if value is not None:
                values[pod.name] = value.as_int(-3)
        if not values:
            raise MetricError(f"unable to get metric {name}: no metrics returned from custom metrics API")
        groups = group_pods(self._required_pods(), values, resource="", now=self.manager.now())
        if not values:
            raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
        wanted = (target.average_value or Quantity(1)).as_int(-3)
        usage = average(values)
        replicas = self._replicas_by_average(values, groups, wanted)
        current = MetricValueStatus(average_value=_milli(usage))
        status = MetricStatus(type="Pods", pods=PodsMetricStatus(metric=metric, current=current))
        return Proposal(replicas, f"pods metric {name}", status)

    async def _object(self, spec: MetricSpec) -> Proposal:
        found = spec.object
        assert found is not None
        described = found.described_object
        metric, target = found.metric or MetricIdentifier(), found.target or MetricTarget()
        kind = (described.kind if described else None) or ""
        name = (described.name if described else None) or ""
        namespace = self.autoscaler.namespace
        try:
            value = await self.source.object_metric(
                kind,
                name,
                namespace,
                metric.name or "",
                _metric_selector(metric),
                api_version=(described.api_version if described else None) or "",
            )
        except MetricNotFound as error:
            text = f"unable to get metric {metric.name}: {kind} on {namespace} {name}/{error}"
            raise MetricError(text) from None
        usage = value.as_int(-3)
        if target.type == "Value" and target.value is not None:
            replicas = self._by_total(usage, target.value)
            current = MetricValueStatus(value=_milli(usage))
            description = f"{kind} metric {metric.name}"
        elif target.type == "AverageValue" and target.average_value is not None:
            replicas, per_pod = replicas_by_average(
                self.status_replicas, usage, target.average_value.as_int(-3), self._tolerance
            )
            current = MetricValueStatus(average_value=_milli(per_pod))
            description = f"external metric {metric.name}({_selector_text(metric)})"
        else:
            raise MetricError(
                "invalid object metric source: neither a value target nor an average value target was set"
            )
        listed = ObjectMetricStatus(described_object=described, metric=metric, current=current)
        return Proposal(replicas, description, MetricStatus(type="Object", object=listed))

    async def _external(self, spec: MetricSpec) -> Proposal:
        found = spec.external
        assert found is not None
        metric, target = found.metric or MetricIdentifier(), found.target or MetricTarget()
        namespace, name = self.autoscaler.namespace, metric.name or ""
        try:
            values = await self.source.external_metric(namespace, name, _metric_selector(metric))
        except MetricNotFound as error:
            place = f"{namespace}/{name}/{_selector_text(metric)}"
            text = f"unable to get external metric {place}: {error}"
            lead = "failed to get external metric" if target.average_value is None else "failed to get"
            tail = "" if target.average_value is None else " external metric"
            raise MetricError(f"{lead} {name}{tail}: {text}") from None
        usage = sum(value.as_int(-3) for value in values)
        if target.average_value is not None:
            replicas, per_pod = replicas_by_average(
                self.status_replicas, usage, target.average_value.as_int(-3), self._tolerance
            )
            current = MetricValueStatus(average_value=_milli(per_pod))
        elif target.value is not None:
            replicas = self._by_total(usage, target.value)
            current = MetricValueStatus(value=_milli(usage))
        else:
            raise MetricError(
                "invalid external metric source: neither a value target nor an average value target was set"
            )
        status = MetricStatus(type="External", external=ExternalMetricStatus(metric=metric, current=current))
        return Proposal(replicas, f"external metric {name}({_selector_text(metric)})", status)

    def _by_total(self, usage: int, target: Quantity) -> int:
        ratio = usage / target.as_int(-3)
        return replicas_by_total(self.spec_replicas, ratio, self._tolerance, self._ready_pods)

    def _ready_pods(self) -> int:
        from kubewright.api.conditions import is_condition_true

        return sum(
            1
            for pod in self._required_pods()
            if pod.status is not None
            and pod.status.phase == "Running"
            and is_condition_true(pod.status, "Ready")
        )

    def _required_pods(self) -> list[Pod]:
        if not self.pods:
            raise MetricError("no pods returned by selector while calculating replica count")
        return self.pods


def _summary(spec: MetricSpec) -> str:
    if spec.resource is not None:
        return f"failed to get {spec.resource.name} resource metric value"
    if spec.container_resource is not None:
        return f"failed to get {spec.container_resource.container} container metric value"
    if spec.external is not None and spec.external.metric is not None:
        return f"failed to get {spec.external.metric.name} external metric value"
    return f"failed to get {'pods' if spec.pods is not None else 'object'} metric value"


def _metric_selector(metric: MetricIdentifier) -> Selector:
    return EVERYTHING if metric.selector is None else selector_of(metric.selector)


def _selector_text(metric: MetricIdentifier) -> str:
    return format_label_selector(metric.selector)


def _milli(value: int, *, binary: bool = False) -> Quantity:
    return Quantity.from_nanos(value * 1_000_000, "BinarySI" if binary else "DecimalSI")
