"""Durations and results of admission by step, plug-in, webhook and policy, under the names of kube-apiserver.

A step is one pass over all plug-ins: `admit` for the mutating, `validate` for the validating ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.histogram import Histogram

AdmissionStep = Literal["admit", "validate", "validating"]
"""`validating` is the type of validating webhooks."""

_MAX_CODE: Final = 600
"""Larger status codes are counted as this one."""
_PLUGIN_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS: Final = (*_PLUGIN_BUCKETS, 10.0, 25.0)
_POLICY_BUCKETS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_MAX_SERIES: Final = 2000
"""Series of one metric. The first ones are removed: names of webhooks and policies are those of users."""


class HistogramFamily:
    """Histograms of one metric by the values of its labels."""

    def __init__(self, name: str, about: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)
        self._buckets = tuple(buckets)
        self._series: dict[tuple[str, ...], Histogram] = {}

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        """Count a value."""
        series = self._series.get(labels)
        if series is None:
            if len(self._series) >= _MAX_SERIES:
                del self._series[next(iter(self._series))]
            series = self._series[labels] = Histogram(self._buckets)
        series.observe(value)

    def collect(self) -> Iterator[tuple[tuple[str, ...], Histogram]]:
        """Return the series."""
        yield from list(self._series.items())

    def metric(self) -> Metric:
        """Return the samples."""
        family = HistogramMetricFamily(self.name, self.about, labels=self.labels)
        for labels, series in self.collect():
            family.add_metric(labels, *series.collect())
        return family


class CounterFamily:
    """Counters of one metric by the values of its labels."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)
        self._series: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str) -> None:
        """Count one."""
        if labels not in self._series and len(self._series) >= _MAX_SERIES:
            del self._series[next(iter(self._series))]
        self._series[labels] = self._series.get(labels, 0) + 1

    def metric(self) -> Metric:
        """Return the samples. Some names of kube-apiserver end with `_count`, which counters here cannot."""
        is_counter = self.name.endswith("_total")
        family = (CounterMetricFamily if is_counter else GaugeMetricFamily)(
            self.name, self.about, labels=self.labels
        )
        for labels, count in list(self._series.items()):
            family.add_metric(labels, count)
        return family


class AdmissionMetrics(Collector):
    """Metrics of the admission chain of one server."""

    def __init__(self) -> None:
        prefix = "apiserver_admission_"
        labels = ("name", "operation", "rejected", "type")
        self._plugins = HistogramFamily(
            f"{prefix}controller_admission_duration_seconds",
            "Seconds that admission plug-ins took, by plug-in and operation.",
            labels,
            _PLUGIN_BUCKETS,
        )
        self._steps = HistogramFamily(
            f"{prefix}step_admission_duration_seconds",
            "Seconds that all plug-ins of a step took, by operation.",
            labels[1:],
            _PLUGIN_BUCKETS,
        )
        self._webhooks = HistogramFamily(
            f"{prefix}webhook_admission_duration_seconds",
            "Seconds that calls of admission webhooks took, by webhook and operation.",
            labels,
            _WEBHOOK_BUCKETS,
        )
        self._requests = CounterFamily(
            f"{prefix}webhook_request_total",
            "Calls of admission webhooks, by webhook, operation and status of the response.",
            ("code", *labels),
        )
        self._rejections = CounterFamily(
            f"{prefix}webhook_rejection_count",
            "Requests that admission webhooks rejected, or whose webhook could not be called.",
            ("error_type", "name", "operation", "rejection_code", "type"),
        )
        self._fail_open = CounterFamily(
            f"{prefix}webhook_fail_open_count",
            "Requests that were admitted although a webhook could not be called.",
            ("name", "type"),
        )
        self._policies = HistogramFamily(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "Seconds that the evaluation of policies took that had an effect, by policy and binding.",
            ("enforcement_action", "error_type", "policy", "policy_binding"),
            _POLICY_BUCKETS,
        )

    def observe_plugin(
        self, name: str, operation: str, step: AdmissionStep, seconds: float, *, rejected: bool
    ) -> None:
        """Count a call of a plug-in."""
        self._plugins.observe((name, operation, "true" if rejected else "false", step), seconds)

    def observe_step(self, operation: str, step: AdmissionStep, seconds: float, *, rejected: bool) -> None:
        """Count a pass over the plug-ins."""
        self._steps.observe((operation, "true" if rejected else "false", step), seconds)

    def observe_webhook(
        self,
        name: str,
        operation: str,
        step: AdmissionStep,
        seconds: float,
        *,
        code: int,
        rejected: bool,
        error_type: str,
    ) -> None:
        """Count a call of a webhook.

        `code` is the status of its response, `error_type` why it had none: `calling_webhook_error`,
        `apiserver_internal_error`, or `no_error`.
        """
        shown = "true" if rejected else "false"
        self._webhooks.observe((name, operation, shown, step), seconds)
        status = str(min(code, _MAX_CODE))
        self._requests.add(status, name, operation, shown, step)
        if rejected:
            self._rejections.add(error_type, name, operation, status, step)
        elif error_type != "no_error":
            self._fail_open.add(name, step)

    def observe_policy(self, policy: str, binding: str, action: str, seconds: float, *, error: str) -> None:
        """Count an effect of a policy: `deny`, `audit` or `warn`, and the type of the error."""
        self._policies.observe((action, error, policy, binding), seconds)

    def collect(self) -> Iterator[Metric]:
        """Return the samples."""
        for family in (self._plugins, self._steps, self._webhooks, self._policies):
            yield family.metric()
        for counters in (self._requests, self._rejections, self._fail_open):
            yield counters.metric()
        total = CounterMetricFamily(
            "apiserver_validating_admission_policy_check",
            "Effects of policies, by policy and binding.",
            labels=self._policies.labels,
        )
        for labels, series in self._policies.collect():
            total.add_metric(labels, series.count)
        yield total
