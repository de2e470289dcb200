"""Scheduler extenders: what kube-scheduler asks over HTTP about where a pod may and should run.

    extender = SchedulerExtender(filter=has_gpu, prioritize=least_loaded)
    extender.add_to(server, "/scheduler")          # POST /scheduler/filter, /scheduler/prioritize, ...

Functions are about one node: `filter(pod, node)` gives `True`, or `False` or a text that says why not;
`prioritize(pod, node)` gives 0 to 10; `bind(binding)` binds. `node` is the `Node`, or its name where the
scheduler is told `nodeCacheCapable` and sends names alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api import codec
from kubewright.api.core.v1 import Node, Pod
from kubewright.callables import call_with_accepted

from .review import InvalidReviewError

if TYPE_CHECKING:
    from .server import WebhookServer

MAX_PRIORITY = 10


class ExtenderBinding(msgspec.Struct, rename="pascal"):
    """Which pod is to run on which node."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(default="", name="PodUID")
    node: str = ""


class _Arguments(msgspec.Struct):
    pod: Pod | None = msgspec.field(default=None, name="Pod")
    nodes: dict[str, Any] | None = msgspec.field(default=None, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")


class SchedulerExtender:
    """Answers `filter`, `prioritize` and `bind`, those that it was given functions for."""

    def __init__(
        self,
        *,
        filter: Callable[[Pod, Any], Any] | None = None,
        prioritize: Callable[[Pod, Any], Any] | None = None,
        bind: Callable[[ExtenderBinding], Any] | None = None,
    ) -> None:
        self._filter = filter
        self._prioritize = prioritize
        self._bind = bind

    def add_to(self, server: WebhookServer, prefix: str) -> None:
        """Serve below a path: the `urlPrefix` of the scheduler's configuration."""
        base = prefix.rstrip("/")
        for function, verb, answer in (
            (self._filter, "filter", self.answer_filter),
            (self._prioritize, "prioritize", self.answer_prioritize),
            (self._bind, "bind", self.answer_bind),
        ):
            if function is not None:
                server.add_endpoint(f"{base}/{verb}", answer)

    async def answer_filter(self, body: bytes) -> bytes:
        """Which nodes may run a pod, and why the others may not."""
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
                failed[name] = verdict if isinstance(verdict, str) and verdict else "refused by the extender"
        answer: dict[str, Any] = {"FailedNodes": failed, "Error": ""}
        if all(isinstance(each, str) for each in (plain for _, plain in nodes)):
            answer["NodeNames"] = kept
        else:
            answer["Nodes"] = {"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": kept}
        return codec.encode(answer)

    async def answer_prioritize(self, body: bytes) -> bytes:
        """How good each node is."""
        assert self._prioritize is not None
        pod, nodes = _arguments(body)
        scores = []
        for node, _ in nodes:
            score = int(await call_with_accepted(self._prioritize, pod, node))
            name = node if isinstance(node, str) else node.metadata.name
            if not 0 <= score <= MAX_PRIORITY:
                raise ValueError(f"node {name}: the priority must be 0 to {MAX_PRIORITY}, not {score}")
            scores.append({"Host": name, "Score": score})
        return codec.encode(scores)

    async def answer_bind(self, body: bytes) -> bytes:
        """Bind a pod; a failure is told to the scheduler, which tries again later."""
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
    """The pod, and every node twice: as functions see it and as it came."""
    try:
        found = codec.decoder(_Arguments).decode(body)
    except msgspec.DecodeError as error:
        raise InvalidReviewError(f"the body is not what a scheduler sends: {error}") from None
    if found.pod is None or (found.nodes is None and found.node_names is None):
        raise InvalidReviewError("expected a Pod, and Nodes or NodeNames")
    if found.nodes is None:
        return found.pod, [(name, name) for name in found.node_names or ()]
    return found.pod, [(codec.from_plain(item, Node), item) for item in found.nodes.get("items") or ()]
