"""Alert rules of the metrics that a manager serves, in the format of Prometheus.

`alert_groups` returns the rules for `config/prometheus/alerts.yaml`, and for a PrometheusRule if the project
uses the Prometheus operator. Thresholds are meant to be changed with an overlay; the alerts are about states
that no operator should be in for long. Each has a section in `docs/alerts.md`, to which it links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .names import DeploymentNames, Manifest

RUNBOOKS: Final = "https://github.com/kubewright/kubewright/blob/main/docs/alerts.md"


@dataclass(frozen=True)
class Alert:
    """A rule; `%s` in its expression is the selector of the metrics of the operator."""

    name: str
    expression: str
    duration: str
    severity: str
    summary: str
    feature: str = ""
    """Feature of the deployment that it needs: `webhooks`, `leader_election`, or none."""


ALERTS: Final = (
    Alert(
        "OperatorDown",
        "absent(up{%s} == 1)",
        "5m",
        "critical",
        "no replica of the operator is scraped",
    ),
    Alert(
        "OperatorReconcileErrors",
        "sum by (controller) (rate(controller_runtime_reconcile_errors_total{%s}[10m])) "
        "/ sum by (controller) (rate(controller_runtime_reconcile_total{%s}[10m])) > 0.1",
        "15m",
        "warning",
        "more than 10 % of the reconciles of {{ $labels.controller }} fail",
    ),
    Alert(
        "OperatorHotLoop",
        "sum by (controller) (increase(kubewright_controller_hot_loops_total{%s}[10m])) > 0",
        "10m",
        "warning",
        "reconciles of {{ $labels.controller }} trigger themselves",
    ),
    Alert(
        "OperatorQueueAge",
        "histogram_quantile(0.99, sum by (name, le) "
        "(rate(workqueue_queue_duration_seconds_bucket{%s}[10m]))) > 60",
        "15m",
        "warning",
        "objects wait more than a minute in the queue of {{ $labels.name }}",
    ),
    Alert(
        "OperatorStuckReconcile",
        "max by (name) (workqueue_longest_running_processor_seconds{%s}) > 900",
        "5m",
        "warning",
        "a reconcile of {{ $labels.name }} runs for more than 15 minutes",
    ),
    Alert(
        "OperatorEventLoopBlocked",
        "histogram_quantile(0.99, sum by (pod, le) "
        "(rate(kubewright_event_loop_delay_seconds_bucket{%s}[10m]))) > 1",
        "10m",
        "warning",
        "a call blocks the event loop of {{ $labels.pod }} for more than a second",
    ),
    Alert(
        "OperatorRequestErrors",
        'sum(rate(rest_client_requests_total{code=~"5..|429", %s}[10m])) '
        "/ sum(rate(rest_client_requests_total{%s}[10m])) > 0.1",
        "15m",
        "warning",
        "the API server rejects more than 10 % of the requests",
    ),
    Alert(
        "OperatorWithoutLeader",
        "max(leader_election_master_status{%s}) == 0",
        "5m",
        "critical",
        "no replica of the operator is the leader",
        "leader_election",
    ),
    Alert(
        "OperatorWebhookLatency",
        "histogram_quantile(0.99, sum by (webhook, le) "
        "(rate(controller_runtime_webhook_latency_seconds_bucket{%s}[10m]))) > 1",
        "10m",
        "warning",
        "requests to {{ $labels.webhook }} take more than a second",
        "webhooks",
    ),
    Alert(
        "OperatorWebhookErrors",
        "sum by (webhook) (rate(controller_runtime_webhook_panics_total{%s}[10m])) > 0",
        "10m",
        "critical",
        "the function of {{ $labels.webhook }} raises",
        "webhooks",
    ),
    Alert(
        "OperatorCertificateExpiry",
        "min by (pod) (kubewright_serving_certificate_expiration_timestamp_seconds{%s}) - time() "
        "< 7 * 24 * 3600",
        "1h",
        "critical",
        "the serving certificate of {{ $labels.pod }} expires within a week",
        "webhooks",
    ),
)


def alert_groups(names: DeploymentNames, *, features: frozenset[str]) -> Manifest:
    """Return a rule file of Prometheus with the alerts of the features that the deployment has."""
    selector = f'job="{names.metrics_service}", namespace="{names.namespace}"'
    rules = [
        {
            "alert": each.name,
            "expr": each.expression.replace("%s", selector),
            "for": each.duration,
            "labels": {"severity": each.severity, "operator": names.project},
            "annotations": {
                "summary": f"{names.project}: {each.summary}",
                "runbook_url": f"{RUNBOOKS}#{each.name.lower()}",
            },
        }
        for each in ALERTS
        if not each.feature or each.feature in features
    ]
    return {"groups": [{"name": f"{names.project}-operator", "rules": rules}]}


def prometheus_rule(names: DeploymentNames, groups: Manifest) -> Manifest:
    """Return the PrometheusRule of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": names.metadata(f"{names.manager}-alerts"),
        "spec": groups,
    }
