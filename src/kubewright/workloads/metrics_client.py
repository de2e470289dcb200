"""`APIMetrics`: metrics of the metrics APIs of the cluster, which autoscaling reads.

| metrics | API |
|---|---|
| CPU and memory of pods | metrics.k8s.io |
| custom metrics of pods and other objects | custom.metrics.k8s.io |
| external metrics | external.metrics.k8s.io |

An APIService makes the cluster forward such a group to a metrics server or to an adapter. Where the cluster
does not serve a group, the values of another source are used, such as those that a test sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.values.quantity import Quantity, QuantityError
from kubewright.apiserver.resources.objects import Object
from kubewright.client.errors import ConnectionFailed, NoKindMatch

from .pod_metrics import MetricNotFound, MetricsSource, Usage

if TYPE_CHECKING:
    from kubewright.api.core.v1 import Pod
    from kubewright.api.selectors.label_selectors import Selector
    from kubewright.client import Client

RESOURCE, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
_JSON = {"Accept": "application/json"}


class APIMetrics:
    """The metrics of one reconcile: responses for all pods are requested once and used for each of them."""

    def __init__(self, client: Client, others: MetricsSource, *, pods: str) -> None:
        """`pods` is the label selector of the pods; `others` is used for groups that are not served."""
        self._client = client
        self._others = others
        self._pods = pods
        self._versions: dict[str, str] = {}
        self._responses: dict[tuple[str, str], list[Object]] = {}

    async def containers(self, pod: Pod) -> dict[str, Usage]:
        """Return the usage of the containers of a pod; empty if it is not known."""
        version = await self._version(RESOURCE)
        if not version:
            return await self._others.containers(pod)
        path = f"/apis/{RESOURCE}/{version}/namespaces/{quote(pod.namespace, safe='')}/pods"
        try:
            items = await self._items(path, labelSelector=self._pods)
        except MetricNotFound:
            return {}
        for item in items:
            if item["metadata"]["name"] == pod.name:
                return {
                    each["name"]: {name: Quantity(value) for name, value in each["usage"].items()}
                    for each in item.get("containers") or ()
                }
        return {}

    async def pod_metric(self, pod: Pod, name: str, selector: Selector) -> Quantity | None:
        """Return the value of a custom metric of a pod; `None` if it is not known."""
        version = await self._version(CUSTOM)
        if not version:
            return await self._others.pod_metric(pod, name, selector)
        namespace = quote(pod.namespace, safe="")
        path = f"/apis/{CUSTOM}/{version}/namespaces/{namespace}/pods/*/{quote(name, safe='')}"
        try:
            items = await self._items(path, labelSelector=self._pods, metricLabelSelector=str(selector))
        except MetricNotFound:
            return None
        for item in items:
            if item["describedObject"]["name"] == pod.name:
                return _quantity(item["value"])
        return None

    async def object_metric(
        self, kind: str, name: str, namespace: str, metric: str, selector: Selector, *, api_version: str = ""
    ) -> Quantity:
        """Return the value of a custom metric of an object; raises `MetricNotFound`."""
        version = await self._version(CUSTOM)
        if not version:
            return await self._others.object_metric(
                kind, name, namespace, metric, selector, api_version=api_version
            )
        root, ending = f"/apis/{CUSTOM}/{version}", quote(metric, safe="")
        if kind == "Namespace":
            path = f"{root}/namespaces/{quote(name, safe='')}/metrics/{ending}"
        else:
            try:
                found = await self._client.mapper.resource_for(
                    GroupVersionKind.from_api_version(api_version or "v1", kind)
                )
            except NoKindMatch as error:
                raise MetricNotFound(str(error)) from None
            resource = f"{found.plural}.{found.gvk.group}" if found.gvk.group else found.plural
            scope = f"/namespaces/{quote(namespace, safe='')}" if found.namespaced else ""
            path = f"{root}{scope}/{resource}/{quote(name, safe='')}/{ending}"
        items = await self._items(path, metricLabelSelector=str(selector))
        if not items:
            raise MetricNotFound(f"no metrics returned from custom metrics API for {metric}")
        return _quantity(items[0]["value"])

    async def external_metric(self, namespace: str, name: str, selector: Selector) -> list[Quantity]:
        """Return the values of an external metric; raises `MetricNotFound`."""
        version = await self._version(EXTERNAL)
        if not version:
            return await self._others.external_metric(namespace, name, selector)
        path = f"/apis/{EXTERNAL}/{version}/namespaces/{quote(namespace, safe='')}/{quote(name, safe='')}"
        items = await self._items(path, labelSelector=str(selector))
        if not items:
            raise MetricNotFound("no metrics returned from external metrics API")
        return [_quantity(item["value"]) for item in items]

    async def _version(self, group: str) -> str:
        """Return the preferred version of a group; empty if the cluster does not serve it."""
        found = self._versions.get(group)
        if found is None:
            response = await self._client.rest.transport.send("GET", f"/apis/{group}", "", _JSON)
            found = ""
            if response.status == 200:
                found = str(msgspec.json.decode(response.body)["preferredVersion"]["version"])
            self._versions[group] = found
        return found

    async def _items(self, path: str, **query: str) -> list[Object]:
        encoded = urlencode({name: value for name, value in query.items() if value})
        items = self._responses.get((path, encoded))
        if items is None:
            try:
                response = await self._client.rest.transport.send("GET", path, encoded, _JSON)
            except ConnectionFailed as error:
                raise MetricNotFound(f"{_failure(path)}: {error}") from None
            if response.status != 200:
                raise MetricNotFound(f"{_failure(path)}: {_message(response.body)}")
            items = self._responses[path, encoded] = msgspec.json.decode(response.body).get("items") or []
        return items


def _failure(path: str) -> str:
    name = {CUSTOM: "custom", EXTERNAL: "external"}.get(path.split("/")[2], "resource")
    return f"unable to fetch metrics from {name} metrics API"


def _message(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body.decode(errors="replace").strip()


def _quantity(text: Any) -> Quantity:
    try:
        return Quantity(text)
    except QuantityError as error:
        raise MetricNotFound(f"invalid value of a metric: {error}") from None
