"""`HTTPExtender`: a process that filters, scores and binds pods over HTTP, as kube-scheduler calls it.

The JSON has the field names of `k8s.io/kube-scheduler/extender/v1`, so existing extenders work unchanged.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kubewright.api.core.v1 import Container, Pod
from kubewright.api.encoding.codec import to_plain

from .framework.status import Code, SchedulingStatus
from .state.node_info import NodeInfo

if TYPE_CHECKING:
    import aiohttp

MAX_EXTENDER_PRIORITY = 10
"""Largest score that an extender returns."""


class ExtenderError(Exception):
    """An extender is not reachable or has failed."""


class Victims(NamedTuple):
    """Pods that preemption would delete on a node."""

    pods: list[Pod]
    pdb_violations: int


class ExtenderFilterResult(NamedTuple):
    """Nodes that an extender accepts, and the others with reasons."""

    nodes: list[NodeInfo]
    rejected: dict[str, SchedulingStatus]


class Extender(Protocol):
    """An external filter, scorer or binder."""

    @property
    def name(self) -> str:
        """Name in logs and messages."""

    @property
    def weight(self) -> int:
        """Factor of its scores."""

    @property
    def ignorable(self) -> bool:
        """Whether pods are scheduled without it when it fails."""

    @property
    def is_filter(self) -> bool:
        """Whether it filters nodes."""

    @property
    def is_prioritizer(self) -> bool:
        """Whether it scores nodes."""

    @property
    def is_binder(self) -> bool:
        """Whether it binds pods."""

    @property
    def supports_preemption(self) -> bool:
        """Whether it takes part in preemption."""

    def is_interested(self, pod: Pod) -> bool:
        """Whether the extender is called for a pod."""

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        """Return the nodes that the pod can run on."""

    async def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """Return scores by node, 0 to 10."""

    async def preempt(
        self, pod: Pod, victims: Mapping[str, Victims], nodes: Mapping[str, NodeInfo]
    ) -> dict[str, Victims]:
        """Return the nodes, with victims, on which preemption is acceptable."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod."""


@dataclass(slots=True, kw_only=True)
class HTTPExtender:
    """An extender at a URL. A verb that is empty is not supported by it."""

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    timeout: float = 5.0
    """Seconds per call."""
    node_cache_capable: bool = False
    """Send names of nodes instead of node objects."""
    managed_resources: frozenset[str] = frozenset()
    """Call the extender only for pods that request one of these resources."""
    ignored_by_scheduler: frozenset[str] = frozenset()
    """Managed resources that the scheduler does not check itself."""
    ignorable: bool = False
    """Schedule without the extender when it fails."""
    ssl_context: ssl.SSLContext | None = None
    _session: aiohttp.ClientSession | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The URL."""
        return self.url

    @property
    def is_filter(self) -> bool:
        """Whether the extender filters nodes."""
        return bool(self.filter_verb)

    @property
    def is_prioritizer(self) -> bool:
        """Whether the extender scores nodes."""
        return bool(self.prioritize_verb)

    @property
    def is_binder(self) -> bool:
        """Whether the extender binds pods."""
        return bool(self.bind_verb)

    @property
    def supports_preemption(self) -> bool:
        """Whether the extender takes part in preemption."""
        return bool(self.preempt_verb)

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod requests a managed resource, or all pods are managed."""
        if not self.managed_resources:
            return True
        spec = pod.spec
        if spec is None:
            return False
        containers: Iterable[Container] = (*(spec.containers or ()), *(spec.init_containers or ()))
        return any(
            name in self.managed_resources
            for container in containers
            if container.resources is not None
            for name in (*(container.resources.requests or {}), *(container.resources.limits or {}))
        )

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        """Return the nodes that the pod can run on."""
        result = await self._call(self.filter_verb, self._arguments(pod, nodes))
        if result.get("error"):
            raise ExtenderError(str(result["error"]))
        by_name = {node.name: node for node in nodes}
        names: list[str] | None = result.get("nodenames")
        if names is None or not self.node_cache_capable:
            items = (result.get("nodes") or {}).get("items") or []
            names = [str((item.get("metadata") or {}).get("name")) for item in items]
        unknown = [name for name in names if name not in by_name]
        if unknown:
            raise ExtenderError(
                f'extender "{self.url}" claims a filtered node "{unknown[0]}" '
                "which is not found in the input node list"
            )
        rejected = {
            name: SchedulingStatus(Code.UNSCHEDULABLE, str(reason))
            for name, reason in (result.get("failednodes") or {}).items()
        }
        for name, reason in (result.get("failedandunresolvablenodes") or {}).items():
            rejected[name] = SchedulingStatus(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, str(reason))
        return ExtenderFilterResult([by_name[name] for name in names], rejected)

    async def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """Return scores by node."""
        result = await self._call(self.prioritize_verb, self._arguments(pod, nodes))
        scores = [_lower(item) for item in result.get("items") or ()]
        return {str(item["host"]): int(item["score"]) for item in scores}

    async def preempt(
        self, pod: Pod, victims: Mapping[str, Victims], nodes: Mapping[str, NodeInfo]
    ) -> dict[str, Victims]:
        """Return the nodes, with victims, on which preemption is acceptable."""
        if self.node_cache_capable:
            arguments: dict[str, Any] = {
                "NodeNameToMetaVictims": {
                    name: {
                        "Pods": [{"UID": each.metadata.uid} for each in found.pods],
                        "NumPDBViolations": found.pdb_violations,
                    }
                    for name, found in victims.items()
                }
            }
        else:
            arguments = {
                "NodeNameToVictims": {
                    name: {
                        "Pods": [to_plain(each) for each in found.pods],
                        "NumPDBViolations": found.pdb_violations,
                    }
                    for name, found in victims.items()
                }
            }
        result = await self._call(self.preempt_verb, {"Pod": to_plain(pod), **arguments})
        accepted: dict[str, Victims] = {}
        for name, meta in (result.get("nodenametometavictims") or {}).items():
            details = _lower(meta or {})
            pods = []
            for each in details.get("pods") or ():
                uid = str(_lower(each).get("uid"))
                info = nodes[name].pods.get(uid) if name in nodes else None
                if info is None:
                    raise ExtenderError(
                        f"extender: {self.url} claims to preempt pod (UID: {uid}) on node: {name}, "
                        "but the pod is not found on that node"
                    )
                pods.append(info.pod)
            accepted[name] = Victims(pods, int(details.get("numpdbviolations") or 0))
        return accepted

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod."""
        meta = pod.metadata
        result = await self._call(
            self.bind_verb,
            {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node_name},
        )
        if result.get("error"):
            raise ExtenderError(str(result["error"]))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _arguments(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, Any]:
        if self.node_cache_capable:
            return {"Pod": to_plain(pod), "Nodes": None, "NodeNames": [node.name for node in nodes]}
        items = [to_plain(node.node) for node in nodes]
        return {"Pod": to_plain(pod), "Nodes": {"items": items}, "NodeNames": None}

    async def _call(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post JSON; a list in the response is returned as `items`. Field names are in lower case."""
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.timeout))
        url = f"{self.url.rstrip('/')}/{verb}"
        try:
            async with self._session.post(url, json=body, ssl=self.ssl_context or True) as response:
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                data = json.loads(await response.read())
        except (TimeoutError, aiohttp.ClientError, json.JSONDecodeError) as error:
            raise ExtenderError(
                f"{verb} of extender {self.url}: {str(error) or type(error).__name__}"
            ) from error
        return {"items": data} if isinstance(data, list) else _lower(data)


def _lower(data: Mapping[str, Any]) -> dict[str, Any]:
    # Go decodes field names without regard to case.
    return {name.lower(): value for name, value in data.items()}
