"""Scheduler extenders: HTTP callbacks of kube-scheduler that filter and score nodes, and bind pods.

    extender = SchedulerExtender(filter=has_gpu, prioritize=least_loaded)
    extender.add_to(server, "/scheduler")          # POST /scheduler/filter, /scheduler/prioritize, ...

Functions are called for one node: `filter(pod, node)` returns `True`, or `False` or the reason as text;
`prioritize(pod, node)` returns a score from 0 to 10; `bind(binding)` binds a pod. `node` is the `Node`, or
its name if the scheduler is configured with `nodeCacheCapable` and sends names only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kubewright.api.core.v1 import Node, Pod
from kubewright.api.encoding import codec
from kubewright.callables import call_with_accepted

from .review import InvalidReviewError

if TYPE_CHECKING:
    from .server import WebhookServer

MAX_PRIORITY = 10

NodeT = TypeVar("NodeT", bound=Node | str)


class ExtenderBinding(msgspec.Struct, rename="pascal"):
    """Pod and node of a bind request (`ExtenderBindingArgs`)."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(default="", name="PodUID")
    node: str = ""


class _Arguments(msgspec.Struct):
    pod: Pod | None = msgspec.field(default=None, name="Pod")
    nodes: dict[str, Any] | None = msgspec.field(default=None, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")


class SchedulerExtender:
    """Endpoints `filter`, `prioritize` and `bind`, those for which functions are given."""

    def __init__(
        self,
        *,
        filter: Callable[[Pod, NodeT], Awaitable[bool | str] | bool | str] | None = None,
        prioritize: Callable[[Pod, NodeT], Awaitable[int] | int] | None = None,
        bind: Callable[[ExtenderBinding], Awaitable[None] | None] | None = None,
    ) -> None:
        self._filter = filter
        self._prioritize = prioritize
        self._bind = bind

    def add_to(self, server: WebhookServer, prefix: str) -> None:
        """Serve below a path, the `urlPrefix` in the configuration of the scheduler."""
        base = prefix.rstrip("/")
        for function, verb, endpoint in (
            (self._filter, "filter", self.handle_filter),
            (self._prioritize, "prioritize", self.handle_prioritize),
            (self._bind, "bind", self.handle_bind),
        ):
            if function is not None:
                server.add_endpoint(f"{base}/{verb}", endpoint)

    async def handle_filter(self, body: bytes) -> bytes:
        """Return the nodes that can run a pod, and the reasons why others cannot."""
        assert self._filter is not None
        pod, nodes = _arguments(body)
        kept: list[Any] = []
        failed: dict[str, str] = {}
        for node, plain in nodes:
            verdict = await call_with_accepted(self._filter, pod, node)
            if verdict is True:
                kept.append(plain)
            else:
                name = node if isinstance(node, str) else str(node.metadata.name)
                failed[name] = (
                    verdict if isinstance(verdict, str) and verdict else "rejected by the scheduler extender"
                )
        response: dict[str, Any] = {"FailedNodes": failed, "Error": ""}
        if all(isinstance(each, str) for each in (plain for _, plain in nodes)):
            response["NodeNames"] = kept
        else:
            response["Nodes"] = {"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": kept}
        return codec.encode(response)

    async def handle_prioritize(self, body: bytes) -> bytes:
        """Return the score of each node."""
        assert self._prioritize is not None
        pod, nodes = _arguments(body)
        scores = []
        for node, _ in nodes:
            score = int(await call_with_accepted(self._prioritize, pod, node))
            name = node if isinstance(node, str) else node.metadata.name
            if not 0 <= score <= MAX_PRIORITY:
                raise ValueError(f"node {name}: the score must be from 0 to {MAX_PRIORITY}, not {score}")
            scores.append({"Host": name, "Score": score})
        return codec.encode(scores)

    async def handle_bind(self, body: bytes) -> bytes:
        """Bind a pod; a failure is reported to the scheduler, which retries later."""
        assert self._bind is not None
        try:
            binding = msgspec.json.decode(body, type=ExtenderBinding)
        except msgspec.DecodeError as error:
            raise InvalidReviewError(f"the body is not a binding: {error}") from None
        try:
            await call_with_accepted(self._bind, binding)
        except Exception as error:
            return codec.encode({"Error": f"{type(error).__name__}: {error}"})
        return codec.encode({"Error": ""})


def _arguments(body: bytes) -> tuple[Pod, list[tuple[Any, Any]]]:
    """Return the pod, and each node as a typed object and as received."""
    try:
        found = codec.decoder(_Arguments).decode(body)
    except msgspec.DecodeError as error:
        raise InvalidReviewError(f"the body is not an ExtenderArgs: {error}") from None
    if found.pod is None or (found.nodes is None and found.node_names is None):
        raise InvalidReviewError("expected a Pod, and Nodes or NodeNames")
    if found.nodes is None:
        return found.pod, [(name, name) for name in found.node_names or ()]
    return found.pod, [(codec.from_plain(item, Node), item) for item in found.nodes.get("items") or ()]
