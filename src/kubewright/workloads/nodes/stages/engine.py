"""`StageEngine`: watches Stage objects and the objects that they are about, and applies them.

The CustomResourceDefinition of Stages is watched; nothing else is done until it exists.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import decode
from kubewright.api.errors import APIError, NotFound
from kubewright.api.gvk import GroupVersionKind
from kubewright.cache import Informer
from kubewright.cache.stores.store import CacheEntry, ObjectChange, ObjectKey
from kubewright.client.errors import ConnectionFailed
from kubewright.client.patches import Patch
from kubewright.workloads.nodes.kubelet_events import KubeletEvent
from kubewright.workloads.nodes.objects import NODE, POD, Object
from kubewright.workloads.nodes.registration.node_object import node_conditions

from .go_templates import Functions, TemplateError
from .jq_paths import ExpressionError
from .stage import PATCH_TYPES, Stage, StageError, StageStep, choose

if TYPE_CHECKING:
    from kubewright.workloads.nodes.simulation import SimulatedNodes

logger = logging.getLogger(__name__)

STAGE: Final = GroupVersionKind("kwok.x-k8s.io", "v1alpha1", "Stage")
CRD: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
CRD_NAME: Final = "stages.kwok.x-k8s.io"
RETRY_SECONDS: Final = 1.0
_ERRORS: Final = (APIError, ConnectionFailed, OSError, TimeoutError)


class _Pending:
    """A stage that will be applied to an object."""

    __slots__ = ("applying", "handle", "stage", "uid")

    def __init__(self, stage: Stage, uid: str) -> None:
        self.stage, self.uid = stage, uid
        self.handle: asyncio.TimerHandle | None = None
        self.applying = False


class StageEngine:
    """Applies Stage objects."""

    def __init__(self, nodes: SimulatedNodes) -> None:
        self._nodes = nodes
        self._stages: dict[str, Stage] = {}
        self._by_kind: dict[GroupVersionKind, list[Stage]] = {}
        self._informers: dict[GroupVersionKind, Informer] = {}
        self._pending: dict[tuple[GroupVersionKind, ObjectKey], _Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._stage_informer: Informer | None = None

    async def prepare(self) -> None:
        """Read the Stages that exist, so that pods do not start with the built-in behaviour."""
        try:
            exists = await self._nodes.client.uncached.get_or_none(CRD, CRD_NAME) is not None
        except _ERRORS as error:
            logger.debug("cannot read the definition of stages", extra={"error": str(error)})
            return
        if exists:
            await self._watch_stages()
            await self._update_kinds()

    async def run(self) -> None:
        """Watch Stages until cancelled."""
        try:
            if self._stage_informer is None:
                await self._wait_for_definition()
                await self._watch_stages()
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._update_kinds()
        finally:
            for pending in self._pending.values():
                if pending.handle is not None:
                    pending.handle.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch_stages(self) -> None:
        self._stage_informer = await self._open(STAGE)
        await self._stage_informer.wait_for_sync()
        self._stage_informer.add_handler(self._on_stage, resync=0)

    async def _wait_for_definition(self) -> None:
        while True:
            try:
                watch = self._nodes.client.watch(CRD, fields={"metadata.name": CRD_NAME})
                async for event in watch:
                    if event.type in ("ADDED", "MODIFIED"):
                        return
            except _ERRORS as error:
                logger.debug("cannot watch the definition of stages", extra={"error": str(error)})
            await asyncio.sleep(RETRY_SECONDS)

    async def _open(self, kind: GroupVersionKind) -> Informer:
        while True:
            try:
                return await self._nodes.informer(kind)
            except (*_ERRORS, LookupError) as error:
                logger.debug("cannot watch kind of a stage", extra={"kind": str(kind), "error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)

    def _on_stage(self, change: ObjectChange) -> None:
        name = change.key.name
        self._stages.pop(name, None)
        if change.new is not None:
            try:
                self._stages[name] = Stage(decode(change.new.raw, dict))
            except (StageError, ExpressionError, TemplateError, KeyError) as error:
                logger.warning("ignored stage", extra={"stage": name, "error": str(error)})
        self._changed.set()

    async def _update_kinds(self) -> None:
        grouped: dict[GroupVersionKind, list[Stage]] = {}
        for stage in self._stages.values():
            grouped.setdefault(stage.kind, []).append(stage)
        self._by_kind = grouped
        for kind in grouped:
            informer = self._informers.get(kind)
            if informer is None:
                informer = self._informers[kind] = await self._open(kind)
                await informer.wait_for_sync()
                informer.add_handler(partial(self._on_object, kind), resync=0)
            else:
                for key, entry in list(informer.store.entries()):
                    self._evaluate(kind, key, entry)
        for kind, key in list(self._pending):
            if kind not in grouped:
                self._drop(kind, key)

    def _on_object(self, kind: GroupVersionKind, change: ObjectChange) -> None:
        if change.new is None:
            self._drop(kind, change.key)
        else:
            self._evaluate(kind, change.key, change.new)

    def _evaluate(self, kind: GroupVersionKind, key: ObjectKey, entry: CacheEntry) -> None:
        """Schedule the stage that matches an object now."""
        stages = self._by_kind.get(kind)
        if not stages:
            return
        obj: Object = decode(entry.raw, dict)
        if not self._is_simulated(kind, obj):
            return
        pending = self._pending.get((kind, key))
        same = pending is not None and pending.uid == entry.uid
        if pending is not None and same and (pending.applying or pending.stage.matches(obj)):
            return
        self._drop(kind, key, keep=True)
        stage = choose(stages, obj, self._nodes.rng)
        if stage is None:
            if pending is not None:
                self._drop(kind, key)
            return
        pending = self._pending[kind, key] = _Pending(stage, entry.uid)
        if kind == POD:
            self._nodes.suspend(key)
        delay = stage.delay(obj, self._nodes.clock.date(), self._nodes.rng)
        loop = asyncio.get_running_loop()
        pending.handle = loop.call_later(delay, self._start, kind, key, pending)

    def _is_simulated(self, kind: GroupVersionKind, obj: Object) -> bool:
        if kind == POD:
            return (obj.get("spec") or {}).get("nodeName") in self._nodes.nodes
        return kind != NODE or obj["metadata"]["name"] in self._nodes.nodes

    def _drop(self, kind: GroupVersionKind, key: ObjectKey, *, keep: bool = False) -> None:
        """Cancel the pending stage of an object; a pod continues with the built-in behaviour."""
        pending = self._pending.pop((kind, key), None)
        if pending is not None and pending.handle is not None:
            pending.handle.cancel()
        if pending is not None and kind == POD and not keep:
            self._nodes.resume(key)

    def _start(self, kind: GroupVersionKind, key: ObjectKey, pending: _Pending) -> None:
        task = asyncio.ensure_future(self._apply(kind, key, pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _apply(self, kind: GroupVersionKind, key: ObjectKey, pending: _Pending) -> None:
        informer = self._informers[kind]
        entry = informer.store.get(key)
        if entry is None or entry.uid != pending.uid or self._pending.get((kind, key)) is not pending:
            return
        obj: Object = decode(entry.raw, dict)
        pending.applying = True
        try:
            for step in pending.stage.steps:
                obj = await self._apply_step(kind, key, obj, step)
        except NotFound:
            pass
        except (*_ERRORS, TemplateError, ValueError) as error:
            logger.warning(
                "could not apply stage",
                extra={"stage": pending.stage.name, "object": str(key), "error": str(error)},
            )
        finally:
            pending.applying = False
        if self._pending.get((kind, key)) is pending:
            self._pending.pop((kind, key))
            current = informer.store.get(key)
            if current is not None and current.revision != entry.revision:
                self._evaluate(kind, key, current)
        if (kind, key) not in self._pending and kind == POD:
            self._nodes.resume(key)

    async def _apply_step(
        self, kind: GroupVersionKind, key: ObjectKey, obj: Object, step: StageStep
    ) -> Object:
        client, namespace = self._nodes.client, key.namespace or None
        if step.event is not None:
            involved = (kind.api_version, kind.kind, key.namespace, key.name, obj["metadata"]["uid"], "")
            event = step.event
            node = (obj.get("spec") or {}).get("nodeName") or ""
            self._nodes.events.record(
                KubeletEvent(
                    node,
                    involved,
                    event.get("type") or "Normal",
                    event.get("reason") or "",
                    event.get("message") or "",
                )
            )
            return obj
        if step.delete:
            await client.delete(kind, key.name, namespace=namespace, grace_period=0, missing_ok=True)
            return obj
        if step.finalizers is not None:
            change: Any = {"metadata": {"finalizers": _finalizers(obj, step.finalizers)}}
            content_type, subresource = PATCH_TYPES["merge"], ""
        else:
            import yaml

            assert step.template is not None
            text = step.template.execute(obj, self._functions(kind, key, obj))
            change = yaml.safe_load(text) or {}
            change = {step.root: change} if step.root else change
            builtin = "." not in kind.group or kind.group.endswith(".k8s.io")
            content_type = step.patch_type or PATCH_TYPES["strategic" if builtin else "merge"]
            subresource = step.subresource
        patch = Patch(content_type, json.dumps(change, default=str).encode())
        patched = await client.patch(kind, key.name, patch, namespace=namespace, subresource=subresource)
        return patched.raw

    def _functions(self, kind: GroupVersionKind, key: ObjectKey, obj: Object) -> Functions:
        nodes, stamp = self._nodes, self._nodes.clock.stamp()
        node = nodes.nodes.get(key.name) if kind == NODE else None
        listener = nodes.registration.listener

        def node_ips(name: str = "") -> list[str]:
            found = nodes.nodes.get(name) if name else node
            return [found.internal_ip] if found is not None and found.internal_ip else []

        def pod_ips(*arguments: Any) -> list[str]:
            address = nodes.pod_address(key)
            return [address] if address else []

        def to_yaml(value: Any, indent: int = 0) -> str:
            import yaml

            lines = yaml.safe_dump(value, default_flow_style=False).rstrip("\n").split("\n")
            return "\n".join("  " * indent + line for line in lines)

        return {
            "Now": lambda: stamp,
            "StartTime": lambda: stamp,
            "Quote": lambda value="": json.dumps(value if isinstance(value, str) else str(value)),
            "YAML": to_yaml,
            "dict": dict,
            "Version": lambda: nodes.registration.kubelet_version,
            "NodeConditions": lambda: node_conditions(stamp),
            "NodeIP": lambda: next(iter(node_ips()), ""),
            "NodeName": lambda: key.name if kind == NODE else "",
            "NodePort": lambda: listener.port if listener is not None else 0,
            "NodeIPWith": lambda name="": next(iter(node_ips(name)), ""),
            "NodeIPsWith": node_ips,
            "PodIPWith": lambda *arguments: next(iter(pod_ips(*arguments)), ""),
            "PodIPsWith": pod_ips,
        }


def _finalizers(obj: Object, change: Object) -> list[str]:
    current: list[str] = list((obj.get("metadata") or {}).get("finalizers") or ())
    if change.get("empty"):
        current = []
    removed = {one.get("value") for one in change.get("remove") or ()}
    current = [each for each in current if each not in removed]
    current += [
        one["value"] for one in change.get("add") or () if one.get("value") and one["value"] not in current
    ]
    return current
