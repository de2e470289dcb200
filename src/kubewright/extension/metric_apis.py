"""The APIs custom.metrics.k8s.io and external.metrics.k8s.io, which HorizontalPodAutoscalers read.

    class Requests(CustomMetrics):
        async def metrics(self) -> list[CustomMetric]:
            return [CustomMetric("pods", "http_requests")]

        async def values(self, metric, names, *, namespace, selector): ...

    app.add_custom_metrics(Requests())

These APIs have metrics where others have resources: `pods/web/http_requests` is a path of the first one,
`queue_length` of the second. `MetricAPI` serves all such paths, and lists the metrics in discovery.
prometheus-adapter and KEDA serve the same APIs with a Go library.

| request | meaning |
|---|---|
| `namespaces/default/pods/web/http_requests` | a metric of one object |
| `namespaces/default/pods/*/http_requests?labelSelector=app=web` | of all objects that match |
| `namespaces/default/metrics/http_requests` | of the namespace itself |
| `nodes/node-0/temperature` | of a cluster-scoped object |
| `namespaces/default/queue_length?labelSelector=queue=mail` | an external metric |
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from kubewright.api.errors import APIError, BadRequest, MethodNotAllowed, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.selectors.label_selectors import Selector, SelectorError, parse_selector
from kubewright.api.values.quantity import Quantity
from kubewright.api.values.times import format_time, now
from kubewright.apiserver.encoding.negotiation import encode, negotiate, respond
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.resource import Resource, Version
from kubewright.apiserver.resources.subresource import Subresource
from kubewright.background import run_forever
from kubewright.client.errors import NoKindMatch
from kubewright.client.kind_types import metadata_of

if TYPE_CHECKING:
    from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse
    from kubewright.apiserver.http.request_info import RequestInfo
    from kubewright.apiserver.server import APIServer
    from kubewright.client import Client

logger = logging.getLogger(__name__)

NAMESPACES = "namespaces"


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """A metric of the objects of a resource: `pods`, `deployments.apps`, `namespaces`."""

    resource: str
    name: str


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A value, when it was measured (now, if not given), and over how many seconds."""

    value: Quantity
    timestamp: datetime | None = None
    window_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class ExternalMetricValue(MetricValue):
    """One series of an external metric."""

    labels: Mapping[str, str] = field(default_factory=dict)


class CustomMetrics(ABC):
    """Metrics of objects of the cluster."""

    @abstractmethod
    async def metrics(self) -> Iterable[CustomMetric]:
        """Return the available metrics, for discovery. Requests for others are passed to `values`, too."""

    @abstractmethod
    async def values(
        self, metric: CustomMetric, names: list[str], *, namespace: str, selector: Selector
    ) -> Mapping[str, MetricValue | Quantity]:
        """Return values by name of the object; objects without a value are missing.

        `names` are existing objects, which match the label selector of the request. `namespace` is empty for
        cluster-scoped objects. `selector` selects series of the metric. An empty result is a 404 if the
        request names one object.
        """


class ExternalMetrics(ABC):
    """Metrics of systems outside of the cluster."""

    @abstractmethod
    async def metrics(self) -> Iterable[str]:
        """Return the names of the available metrics, for discovery."""

    @abstractmethod
    async def values(self, name: str, *, namespace: str, selector: Selector) -> Iterable[ExternalMetricValue]:
        """Return the series that match; raise `NotFound` if the metric does not exist."""


class MetricAPI(ABC):
    """Serves one of the two groups."""

    group: ClassVar[str]
    versions: ClassVar[tuple[str, ...]]
    refresh_interval = 30.0
    """Seconds between updates of discovery."""

    def __init__(self) -> None:
        self._server: APIServer | None = None
        self._client: Client | None = None
        self._listed: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self, server: APIServer, client: Client | None) -> None:
        """Serve the group; `client` reads objects of the cluster."""
        self._server, self._client = server, client
        self._update([])
        await self._refresh()
        for version in self.versions:
            server.add_prefix_handler(f"/apis/{self.group}/{version}", self._handle)
        self._task = run_forever(self._follow, name=f"metrics of {self.group}")

    async def stop(self) -> None:
        """Stop to update discovery."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self.refresh_interval)
            await self._refresh()

    async def _refresh(self) -> None:
        """Read the metrics, and update discovery."""
        try:
            self._update(await self._resources())
        except Exception as error:
            # The source can fail in any way; the last list stays valid.
            logger.warning(
                "could not list metrics",
                extra={"group": self.group, "error": f"{type(error).__name__}: {error}"},
            )

    def _update(self, resources: list[Resource]) -> None:
        """Replace the resources in discovery; without metrics, a placeholder keeps the group available."""
        assert self._server is not None
        added = resources or [self._resource("metrics", verbs=())]
        for plural in self._listed - {each.plural for each in added}:
            self._server.remove(self.group, plural)
        for each in added:
            current = self._server.store(self.group, each.plural)
            if current is None or not _same(current.resource, each):
                self._server.add(each)
        self._listed = {each.plural for each in added}

    def _resource(self, plural: str, *, metrics: Iterable[str] = (), **options: Any) -> Resource:
        return Resource(
            group=self.group,
            plural=plural,
            kind=self.list_kind,
            list_kind=f"{self.list_kind}List",
            versions=[
                Version(name=version, subresources={name: self._subresource(version) for name in metrics})
                for version in self.versions
            ],
            storage_version_hash=False,
            **options,
        )

    def _subresource(self, version: str) -> Subresource:
        async def handle(request: Any) -> Any:  # the prefix handler has precedence
            raise MethodNotAllowed("the server does not allow this method on the requested resource")

        return Subresource(handler=handle, kind=GroupVersionKind(self.group, version, self.list_kind))

    async def _handle(self, request: HTTPRequest) -> HTTPResponse:
        assert self._server is not None
        info = request.info
        if not info.resource:
            discovery = self._server.discovery.handler(request.path.rstrip("/"))
            if discovery is None:
                raise NotFound("the server could not find the requested resource")
            return await discovery(request)
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        items = await self._items(request, info)
        body = {
            "kind": self.list_kind,
            "apiVersion": f"{self.group}/{info.version}",
            "metadata": {},
            "items": items,
        }
        return respond(request, negotiate(request, protobuf=False, tables=False), encode(body))

    list_kind: ClassVar[str]

    @abstractmethod
    async def _resources(self) -> list[Resource]: ...

    @abstractmethod
    async def _items(self, request: HTTPRequest, info: RequestInfo) -> list[Object]: ...


class CustomMetricsAPI(MetricAPI):
    """Serves custom.metrics.k8s.io."""

    group = "custom.metrics.k8s.io"
    versions = ("v1beta2", "v1beta1")
    list_kind = "MetricValueList"

    def __init__(self, source: CustomMetrics) -> None:
        super().__init__()
        self._source = source

    async def _resources(self) -> list[Resource]:
        found: dict[str, list[str]] = {}
        for metric in await self._source.metrics():
            found.setdefault(metric.resource, []).append(metric.name)
        resources = []
        for plural, names in found.items():
            namespaced = plural != NAMESPACES
            if self._client is not None and namespaced:
                namespaced = (await self._client.mapper.resource_for(plural)).namespaced
            resources.append(self._resource(plural, metrics=names, verbs=(), namespaced=namespaced))
        return resources

    async def _items(self, request: HTTPRequest, info: RequestInfo) -> list[Object]:
        if self._client is None:
            raise APIError("the server runs without a cluster", code=503)
        selector = _selector(request, "labelSelector")
        metrics = _selector(request, "metricLabelSelector")
        namespace, resource, name, metric = info.namespace, info.resource, info.name, info.subresource
        if namespace and resource == "metrics" and name and not metric:
            namespace, resource, name, metric = "", NAMESPACES, namespace, name
        elif not namespace and resource == NAMESPACES and metric:
            namespace = ""
        if not metric or len(info.parts) > 3:
            raise NotFound("the server could not find the requested resource")
        wanted = CustomMetric(resource, metric)
        try:
            kind = await self._client.mapper.resource_for(resource)
        except NoKindMatch:
            raise _metric_not_found(wanted) from None
        if name == "*":
            listed = self._client.list(
                metadata_of(kind.gvk), namespace=namespace or None, labels=str(selector)
            )
            names = [each.name async for each in listed]
        else:
            names = [name]
        values = (
            await self._source.values(wanted, names, namespace=namespace, selector=metrics) if names else {}
        )
        if not values and name != "*":
            raise _metric_not_found(wanted, name)
        described = {"kind": kind.gvk.kind, "apiVersion": "/" + kind.gvk.api_version}
        if kind.gvk.group:
            described["apiVersion"] = kind.gvk.api_version
        if namespace:
            described["namespace"] = namespace
        return [
            {
                "describedObject": {**described, "name": each},
                **_custom(info.version, metric, metrics, values[each]),
            }
            for each in names
            if each in values
        ]


class ExternalMetricsAPI(MetricAPI):
    """Serves external.metrics.k8s.io."""

    group = "external.metrics.k8s.io"
    versions = ("v1beta1",)
    list_kind = "ExternalMetricValueList"

    def __init__(self, source: ExternalMetrics) -> None:
        super().__init__()
        self._source = source

    async def _resources(self) -> list[Resource]:
        return [
            self._resource(name, verbs=("list",), discovery_verbs=("get",))
            for name in dict.fromkeys(await self._source.metrics())
        ]

    async def _items(self, request: HTTPRequest, info: RequestInfo) -> list[Object]:
        if not info.namespace or info.name:
            raise NotFound("the server could not find the requested resource")
        selector = _selector(request, "labelSelector")
        name = info.resource
        found = await self._source.values(name, namespace=info.namespace, selector=selector)
        return [{"metricName": name, "metricLabels": dict(each.labels), **_value(each)} for each in found]


def _custom(version: str, metric: str, selector: Selector, value: MetricValue | Quantity) -> Object:
    measured = value if isinstance(value, MetricValue) else MetricValue(value)
    chosen = _label_selector(selector)
    if version == "v1beta1":
        named: Object = {"metricName": metric, "selector": chosen}
    else:
        named = {"metric": {"name": metric, **({"selector": chosen} if chosen else {})}}
    return {**named, **_value(measured)}


def _value(measured: MetricValue) -> Object:
    out: Object = {"timestamp": format_time(measured.timestamp or now())}
    if measured.window_seconds is not None:
        out["windowSeconds"] = measured.window_seconds
    return {**out, "value": str(measured.value)}


_EXPRESSIONS = {"in": "In", "notin": "NotIn", "!=": "NotIn", "exists": "Exists", "!": "DoesNotExist"}


def _label_selector(selector: Selector) -> Object | None:
    """Return a selector as a LabelSelector; `None` if it selects everything."""
    labels: dict[str, str] = {}
    expressions: list[Object] = []
    for each in selector.requirements:
        if each.operator in ("=", "=="):
            labels[each.key] = each.values[0]
        else:
            values = {"values": list(each.values)} if each.values else {}
            operator = _EXPRESSIONS.get(each.operator, each.operator)
            expressions.append({"key": each.key, "operator": operator, **values})
    parts = {"matchLabels": labels, "matchExpressions": expressions}
    return {name: part for name, part in parts.items() if part} or None


def _selector(request: HTTPRequest, name: str) -> Selector:
    try:
        return parse_selector(request.query.get(name))
    except SelectorError as error:
        raise BadRequest(str(error)) from None


def _metric_not_found(metric: CustomMetric, name: str = "") -> NotFound:
    text = f"the server could not find the metric {metric.name} for {metric.resource}"
    return NotFound(f"{text} {name}" if name else text)


def _same(current: Resource, wanted: Resource) -> bool:
    return (current.namespaced, current.verbs) == (wanted.namespaced, wanted.verbs) and all(
        before.subresources.keys() == after.subresources.keys()
        for before, after in zip(current.versions, wanted.versions, strict=True)
    )
