"""The controller of DaemonSets.

Permissions: get, list, watch and patch of DaemonSets and their status; list and watch of Nodes; list, watch,
create, patch and delete of Pods and ControllerRevisions; create and patch of Events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from kubewright.api.apps.v1 import DaemonSet, DaemonSetStatus
from kubewright.api.core.v1 import Node, Pod
from kubewright.api.selectors.label_selectors import selector_of
from kubewright.cache.stores.store import CacheEntry, ObjectChange
from kubewright.client.decoding import decode_object
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.controller_refs import ControllerRefs
from kubewright.workloads.owned_objects import PodOwnerHandler
from kubewright.workloads.pod_control import PodControl, is_namespace_terminating, slow_start
from kubewright.workloads.pods import PodSummary, next_availability

from .history import DaemonSetHistory
from .placement import Fit, Placement, is_rolling_update, is_updated, limits, new_pods, spec_of
from .rollout import Changes, plan_update

WORKERS = 2
MAX_BATCH = 250
FIRST_BACKOFF = 1.0
MAX_BACKOFF = 900.0
_OLDEST = datetime.min.replace(tzinfo=UTC)


def add_daemon_set_controller(manager: ComponentManager) -> None:
    """Add the controller of DaemonSets."""
    controller = DaemonSetController(manager)
    builder: ControllerBuilder[Request] = ControllerBuilder(manager, "daemonset-controller")
    builder.for_(DaemonSet)
    builder.watches(Pod, handler=PodOwnerHandler(manager, DaemonSet, relevant=_relevant))
    builder.watches(Node, handler=controller.enqueue_all)
    builder.with_options(workers=WORKERS).complete(controller.reconcile)


def _relevant(pod: PodSummary) -> object:
    return (
        pod.status.phase,
        pod.is_terminating,
        pod.is_ready,
        pod.ready_since,
        pod.metadata.labels,
        pod.spec.node_name,
    )


def _node_version(entry: CacheEntry | None) -> object:
    """Return what decides whether pods run on a node; its status does not."""
    if entry is None:
        return None
    node = entry.decode(Node)
    return node.metadata.uid, node.metadata.labels, node.spec.taints if node.spec is not None else None


class DaemonSetController:
    """Reconciles DaemonSets."""

    def __init__(self, manager: ComponentManager) -> None:
        self.manager = manager
        self.client = manager.client
        self.control = PodControl(manager)
        self._nodes: dict[str, tuple[CacheEntry, Node]] = {}
        self._backoff: dict[tuple[str | None, str], tuple[float, datetime]] = {}

    def enqueue_all(self, change: ObjectChange) -> Iterable[Request]:
        """Enqueue all DaemonSets when the labels or taints of a node change."""
        informer = self.manager.cache.existing_informer(DaemonSet)
        if informer is None or _node_version(change.old) == _node_version(change.new):
            return ()
        return [Request(*key) for key, _ in informer.store.entries()]

    async def reconcile(self, daemon_set: DaemonSet) -> Result | None:
        """Create and delete pods, replace those of old revisions, then update the status."""
        if daemon_set.spec is None or daemon_set.metadata.deletion_timestamp is not None:
            return None
        selector = daemon_set.spec.selector
        if selector is not None and not selector.match_labels and not selector.match_expressions:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self.manager.recorder.event(daemon_set, "Warning", "SelectingAll", message)
            return None
        nodes = await self._list_nodes()
        placement = Placement(daemon_set)
        fits = {node.name: placement.fit(node) for node in nodes}
        history = DaemonSetHistory(self.manager, daemon_set, selector_of(selector))
        revisions = await history.sync()
        now = self.manager.now()
        pods = await self._list_pods(daemon_set)
        delays: list[float] = []
        failure: Exception | None = None
        try:
            changes = self._plan(daemon_set, pods, fits, revisions.digest, delays)
            if not changes.delete and not changes.create and is_rolling_update(daemon_set):
                changes = plan_update(daemon_set, _by_node(pods), fits, revisions.digest, now)
            await self._apply(daemon_set, changes, revisions.digest)
            await history.truncate(revisions, pods)
        except Exception as error:
            failure = error
        pods = await self._list_pods(daemon_set, claim=False)
        await self._update_status(daemon_set, pods, fits, revisions.digest, now)
        if failure is not None:
            raise failure
        availability = next_availability(pods, spec_of(daemon_set).min_ready_seconds or 0, now)
        if availability is not None:
            delays.append(availability)
        return Result(requeue_after=min(delays)) if delays else None

    async def _list_nodes(self) -> list[Node]:
        informer = await self.manager.cache.informer(Node)
        await informer.wait_for_sync()
        nodes: dict[str, tuple[CacheEntry, Node]] = {}
        assert Node.gvk is not None
        for key, entry in informer.store.entries():
            known = self._nodes.get(key.name)
            if known is None or known[0] is not entry:
                known = (entry, decode_object(entry.raw, Node, Node.gvk))
            nodes[key.name] = known
        self._nodes = nodes
        return [node for _, node in nodes.values()]

    async def _list_pods(self, daemon_set: DaemonSet, *, claim: bool = True) -> list[PodSummary]:
        uid = daemon_set.metadata.uid or ""
        found = await self.manager.pods.owned_by(uid, daemon_set.namespace, orphans=claim)
        if not claim:
            return found
        selector = selector_of(spec_of(daemon_set).selector)
        return await ControllerRefs(self.client, daemon_set, Pod, selector).claim(found)

    # Placement

    def _plan(
        self,
        daemon_set: DaemonSet,
        pods: list[PodSummary],
        fits: dict[str, Fit],
        digest: str,
        delays: list[float],
    ) -> Changes:
        """Return missing pods, and pods that are finished, surplus, or on nodes that no longer match."""
        by_node = _by_node(pods)
        delete: list[PodSummary] = []
        create: list[str] = []
        for node, fit in fits.items():
            on_node = by_node.get(node, [])
            if fit.should_run and not on_node:
                create.append(node)
            elif fit.may_continue:
                running = self._running(daemon_set, node, on_node, delete, delays)
                if limits(daemon_set, 1)[0] == 0 or not is_rolling_update(daemon_set):
                    delete += running[1:]
                elif not running and fit.should_run:
                    create.append(node)
                elif len(running) > 1:
                    delete += self._superseded(daemon_set, running, digest)
            else:
                delete += [pod for pod in on_node if not pod.is_terminating]
        for node, on_node in by_node.items():
            if node not in fits:
                delete += [pod for pod in on_node if not pod.spec.node_name and not pod.is_terminating]
        return Changes(delete, create)

    def _running(
        self,
        daemon_set: DaemonSet,
        node: str,
        pods: list[PodSummary],
        delete: list[PodSummary],
        delays: list[float],
    ) -> list[PodSummary]:
        """Return the pods of a node that run or will run, the oldest first; delete finished ones."""
        running = []
        recorder = self.manager.recorder
        for pod in pods:
            if pod.is_terminating:
                continue
            place = f"{pod.namespace}/{pod.name} on node {node}"
            if pod.status.phase == "Failed":
                delay = self._failed_delay(daemon_set, node)
                if delay > 0:
                    delays.append(delay)
                    continue
                message = f"Found failed daemon pod {place}, will try to kill it"
                recorder.event(daemon_set, "Warning", "FailedDaemonPod", message)
                delete.append(pod)
            elif pod.status.phase == "Succeeded":
                message = f"Found succeeded daemon pod {place}, will try to delete it"
                recorder.event(daemon_set, "Normal", "SucceededDaemonPod", message)
                delete.append(pod)
            else:
                running.append(pod)
        running.sort(key=_by_age)
        return running

    def _failed_delay(self, daemon_set: DaemonSet, node: str) -> float:
        """Return the delay until a failed pod is replaced; if it is 0, the next one is longer."""
        now = self.manager.now()
        key = (daemon_set.metadata.uid, node)
        seconds, last = self._backoff.get(key, (0.0, now))
        elapsed = (now - last).total_seconds()
        if elapsed < seconds:
            return seconds - elapsed
        grown = (
            FIRST_BACKOFF if elapsed > 2 * MAX_BACKOFF else min(max(FIRST_BACKOFF, 2 * seconds), MAX_BACKOFF)
        )
        self._backoff[key] = (grown, now)
        return 0.0

    def _superseded(self, daemon_set: DaemonSet, running: list[PodSummary], digest: str) -> list[PodSummary]:
        """Return the pods of a node to delete during a surge: all but the oldest of each revision."""
        new = [pod for pod in running if is_updated(pod, daemon_set, digest)]
        old = [pod for pod in running if not is_updated(pod, daemon_set, digest)]
        delete = new[1:] + old[1:]
        min_ready = spec_of(daemon_set).min_ready_seconds or 0
        if new and old and (not old[0].is_ready or new[0].is_available(min_ready, self.manager.now())):
            delete.append(old[0])
        return delete

    async def _apply(self, daemon_set: DaemonSet, changes: Changes, digest: str) -> None:
        pods = new_pods(daemon_set, digest, changes.create[:MAX_BATCH])
        failure: Exception | None = None
        try:
            await slow_start(len(pods), lambda number: self.control.create(pods[number], daemon_set))
        except Exception as error:
            if not is_namespace_terminating(error):
                failure = error
        deletions = (self.control.delete(pod, daemon_set) for pod in changes.delete[:MAX_BATCH])
        results = await asyncio.gather(*deletions, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and failure is None:
                failure = result
        if failure is not None:
            raise failure

    # Status

    async def _update_status(
        self,
        daemon_set: DaemonSet,
        pods: list[PodSummary],
        fits: dict[str, Fit],
        digest: str,
        now: datetime,
    ) -> None:
        by_node = _by_node(pods)
        min_ready = spec_of(daemon_set).min_ready_seconds or 0
        wanted = [node for node, fit in fits.items() if fit.should_run]
        oldest = [min(by_node[node], key=_by_age) for node in wanted if by_node.get(node)]
        available = sum(pod.is_available(min_ready, now) for pod in oldest)
        old = daemon_set.status or DaemonSetStatus()
        status = DaemonSetStatus(
            observed_generation=daemon_set.metadata.generation,
            desired_number_scheduled=len(wanted),
            current_number_scheduled=len(oldest),
            number_misscheduled=sum(bool(by_node.get(node)) for node in fits if node not in set(wanted)),
            number_ready=sum(pod.is_ready for pod in oldest),
            updated_number_scheduled=sum(is_updated(pod, daemon_set, digest) for pod in oldest) or None,
            number_available=available or None,
            number_unavailable=len(wanted) - available or None,
            collision_count=old.collision_count,
            conditions=old.conditions,
        )
        if status != daemon_set.status:
            daemon_set.status = status
            await self.client.patch(daemon_set, subresource="status")


def _by_node(pods: list[PodSummary]) -> dict[str, list[PodSummary]]:
    found: dict[str, list[PodSummary]] = {}
    for pod in pods:
        node = pod.target_node
        if node:
            found.setdefault(node, []).append(pod)
    return found


def _by_age(pod: PodSummary) -> tuple[bool, datetime, str]:
    """Sort key: pods that are bound to a node first, then the oldest."""
    return not pod.spec.node_name, pod.created or _OLDEST, pod.name
