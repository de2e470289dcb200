"""Metrics of pods and other objects, for autoscaling and `kubectl top`.

`MetricsSource` is what the HorizontalPodAutoscaler controller reads. `SimulatedMetrics` returns values that a
test sets, or that annotations of the pods declare, and otherwise a part of the requests:

    workloads.simulated_metrics.set_usage("default", "app=web", cpu="250m")
    workloads.simulated_metrics.set_external("queue_length", 30, labels={"queue": "mail"})

| annotation | value |
|---|---|
| `sim.kubewright.dev/cpu`, `sim.kubewright.dev/cpu.<container>` | CPU usage of each container, or of one |
| `sim.kubewright.dev/memory`, `sim.kubewright.dev/memory.<container>` | memory usage |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from kubewright.api.core.v1 import Container, Pod
from kubewright.api.selectors.label_selectors import EVERYTHING, Selector, parse_selector
from kubewright.api.values.quantity import Quantity, QuantityError

PREFIX = "sim.kubewright.dev/"
RESOURCES = ("cpu", "memory")
PART_OF_REQUESTS = Fraction(1, 2)
DEFAULT_USAGE = {"cpu": Quantity("10m"), "memory": Quantity("16Mi")}
"""Usage of containers without requests."""

Usage = dict[str, Quantity]
"""Usage by resource name."""


class MetricNotFound(LookupError):
    """A metric does not exist."""


class MetricsSource(Protocol):
    """Current values of metrics."""

    async def containers(self, pod: Pod) -> dict[str, Usage]:
        """Return the usage of the containers of a running pod, by name; empty if it is not known."""

    async def pod_metric(self, pod: Pod, name: str, selector: Selector) -> Quantity | None:
        """Return the value of a custom metric of a pod; `None` if it is not known."""

    async def object_metric(
        self, kind: str, name: str, namespace: str, metric: str, selector: Selector, *, api_version: str = ""
    ) -> Quantity:
        """Return the value of a custom metric of an object; raises `MetricNotFound`."""

    async def external_metric(self, namespace: str, name: str, selector: Selector) -> list[Quantity]:
        """Return the values of an external metric; raises `MetricNotFound`."""


@dataclass(slots=True)
class _UsageRule:
    namespace: str
    selector: Selector
    container: str
    usage: Usage = field(default_factory=dict)


class SimulatedMetrics:
    """Metrics that a test sets."""

    def __init__(self) -> None:
        self._rules: list[_UsageRule] = []
        self._pods: dict[str, list[tuple[str, Selector, Quantity]]] = {}
        self._objects: dict[tuple[str, str, str, str], Quantity] = {}
        self._external: dict[str, list[tuple[Mapping[str, str], Quantity]]] = {}

    def set_usage(
        self,
        namespace: str,
        selector: str | Selector = EVERYTHING,
        *,
        container: str = "",
        cpu: str | Quantity | None = None,
        memory: str | Quantity | None = None,
    ) -> None:
        """Set the usage of each container of the selected pods, or of one container. The last call counts."""
        given = {"cpu": cpu, "memory": memory}
        usage = {name: Quantity(value) for name, value in given.items() if value is not None}
        self._rules.append(_UsageRule(namespace, _selector(selector), container, usage))

    def set_pod_metric(
        self,
        name: str,
        value: str | int | Quantity,
        *,
        namespace: str = "default",
        selector: str | Selector = EVERYTHING,
    ) -> None:
        """Set a custom metric of the selected pods."""
        self._pods.setdefault(name, []).append((namespace, _selector(selector), Quantity(value)))

    def set_object_metric(
        self, kind: str, name: str, metric: str, value: str | int | Quantity, *, namespace: str = "default"
    ) -> None:
        """Set a custom metric of an object."""
        self._objects[(kind, namespace, name, metric)] = Quantity(value)

    def set_external(
        self, name: str, value: str | int | Quantity, *, labels: Mapping[str, str] | None = None
    ) -> None:
        """Set an external metric; each set of labels is one series."""
        series = self._external.setdefault(name, [])
        series[:] = [each for each in series if each[0] != (labels or {})]
        series.append((dict(labels or {}), Quantity(value)))

    async def containers(self, pod: Pod) -> dict[str, Usage]:
        """Return the usage of the containers of a running pod, by name."""
        if pod.status is None or pod.status.phase != "Running" or pod.spec is None:
            return {}
        sidecars = [each for each in pod.spec.init_containers or () if each.restart_policy == "Always"]
        containers: list[Container] = [*(pod.spec.containers or ()), *sidecars]
        return {each.name or "": self._usage(pod, each) for each in containers}

    def _usage(self, pod: Pod, container: Container) -> Usage:
        found: Usage = {}
        requests = (container.resources.requests if container.resources is not None else None) or {}
        annotations = pod.metadata.annotations or {}
        for resource in RESOURCES:
            request = requests.get(resource)
            found[resource] = DEFAULT_USAGE[resource] if request is None else request * PART_OF_REQUESTS
            for key in (f"{PREFIX}{resource}", f"{PREFIX}{resource}.{container.name}"):
                try:
                    found[resource] = Quantity(annotations[key])
                except (KeyError, QuantityError):
                    continue
        for rule in self._rules:
            if (
                rule.namespace == pod.namespace
                and rule.container in ("", container.name)
                and rule.selector.matches(pod.metadata.labels)
            ):
                found.update(rule.usage)
        return found

    async def pod_metric(self, pod: Pod, name: str, selector: Selector) -> Quantity | None:
        """Return the value of a custom metric of a pod; `None` if it is not set."""
        for namespace, pods, value in reversed(self._pods.get(name, ())):
            if namespace == pod.namespace and pods.matches(pod.metadata.labels):
                return value
        return None

    async def object_metric(
        self, kind: str, name: str, namespace: str, metric: str, selector: Selector, *, api_version: str = ""
    ) -> Quantity:
        """Return the value of a custom metric of an object; raises `MetricNotFound`."""
        try:
            return self._objects[(kind, namespace, name, metric)]
        except KeyError:
            raise MetricNotFound(f"the server could not find the metric {metric} for {kind} {name}") from None

    async def external_metric(self, namespace: str, name: str, selector: Selector) -> list[Quantity]:
        """Return the values of an external metric; raises `MetricNotFound`."""
        found = [value for labels, value in self._external.get(name, ()) if selector.matches(labels)]
        if not found:
            raise MetricNotFound(f"no metrics returned from external metrics API for {name}")
        return found


def _selector(selector: str | Selector) -> Selector:
    return parse_selector(selector) if isinstance(selector, str) else selector


def total_usage(containers: Iterable[Usage]) -> Usage:
    """Return the sum of the usage of containers."""
    total: Usage = {}
    for usage in containers:
        for name, value in usage.items():
            total[name] = total[name].add(value) if name in total else value
    return total
