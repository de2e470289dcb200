"""Grafana dashboard of the metrics that a manager serves."""

from __future__ import annotations

import json
from typing import Any, Final

_RECONCILES: Final = (
    ("Reconciles", "ops", "sum by (controller, result) (rate(controller_runtime_reconcile_total{%s}[5m]))"),
    (
        "Reconcile errors",
        "ops",
        "sum by (controller) (rate(controller_runtime_reconcile_errors_total{%s}[5m]))",
    ),
    (
        "Reconcile duration (p99)",
        "s",
        "histogram_quantile(0.99, sum by (controller, le) "
        "(rate(controller_runtime_reconcile_time_seconds_bucket{%s}[5m])))",
    ),
    ("Active workers", "short", "sum by (controller) (controller_runtime_active_workers{%s})"),
    ("Queue depth", "short", "sum by (name) (workqueue_depth{%s})"),
    (
        "Time in queue (p99)",
        "s",
        "histogram_quantile(0.99, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket{%s}[5m])))",
    ),
    ("Retries", "ops", "sum by (name) (rate(workqueue_retries_total{%s}[5m]))"),
    (
        "Reconciles that trigger themselves",
        "ops",
        "sum by (controller) (rate(kubewright_controller_hot_loops_total{%s}[5m]))",
    ),
    ("API requests", "ops", "sum by (code, method) (rate(rest_client_requests_total{%s}[5m]))"),
)
_WEBHOOKS: Final = (
    (
        "Webhook requests",
        "ops",
        "sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{%s}[5m]))",
    ),
    (
        "Webhook duration (p99)",
        "s",
        "histogram_quantile(0.99, sum by (webhook, le) "
        "(rate(controller_runtime_webhook_latency_seconds_bucket{%s}[5m])))",
    ),
    (
        "Certificate expires in",
        "s",
        "min by (pod) (kubewright_serving_certificate_expiration_timestamp_seconds{%s}) - time()",
    ),
)
_PROCESS: Final = (
    ("Leader", "short", "max by (pod) (leader_election_master_status{%s})"),
    (
        "Event loop delay (p99)",
        "s",
        "histogram_quantile(0.99, sum by (pod, le) "
        "(rate(kubewright_event_loop_delay_seconds_bucket{%s}[5m])))",
    ),
    ("CPU", "short", "sum by (pod) (rate(process_cpu_seconds_total{%s}[5m]))"),
    ("Memory", "bytes", "sum by (pod) (process_resident_memory_bytes{%s})"),
)


def dashboard(project: str, metrics_service: str, *, webhooks: bool) -> str:
    """Return the dashboard as JSON with a line per panel; the data source is a variable."""
    selector = f'job="{metrics_service}", namespace=~"$namespace"'
    panels = [
        _panel(number, title, unit, query % selector)
        for number, (title, unit, query) in enumerate(
            (*_RECONCILES, *(_WEBHOOKS if webhooks else ()), *_PROCESS), start=1
        )
    ]
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    namespace = {
        "name": "namespace",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f'label_values(controller_runtime_reconcile_total{{job="{metrics_service}"}}, namespace)',
        "includeAll": True,
        "multi": True,
        "refresh": 2,
    }
    head = {
        "title": f"{project} operator",
        "uid": f"kubewright-{project}"[:40],
        "tags": ["kubewright"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, namespace]},
    }
    rows = ",\n".join(f"  {json.dumps(panel)}" for panel in panels)
    return f'{json.dumps(head)[:-1]}, "panels": [\n{rows}\n]}}\n'


def _panel(number: int, title: str, unit: str, query: str) -> dict[str, Any]:
    column, row = (number - 1) % 3, (number - 1) // 3
    return {
        "id": number,
        "title": title,
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"h": 8, "w": 8, "x": 8 * column, "y": 8 * row},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}},
        "targets": [{"refId": "A", "expr": query}],
    }
