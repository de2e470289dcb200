"""Metric series of deleted resources are removed."""

from __future__ import annotations

from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
from kubewright.apiserver.http.request_info import parse_request_info
from kubewright.apiserver.metrics.requests import ServerMetrics


def test_series_are_removed_with_the_resource() -> None:
    metrics = ServerMetrics()
    metrics.requests.is_served = lambda info: True
    for plural in ("apples", "berries"):
        for status in (200, 404):
            info = parse_request_info(HTTPRequest("GET", f"/apis/fruit.io/v1/namespaces/d/{plural}/x"))
            metrics.observe(info, HTTPResponse(status), 0.01)
    assert b'resource="apples"' in metrics.render()
    metrics.forget("fruit.io", "apples")
    rendered = metrics.render()
    assert b'resource="apples"' not in rendered
    assert b'resource="berries"' in rendered
    metrics.forget("fruit.io", "apples")
