"""Status of PodDisruptionBudgets (`disruption-controller`).

The eviction API only compares the status of a budget, so this controller keeps it up to date: healthy pods,
pods that have to stay healthy, and how many may be evicted. Evicted pods are listed in `disruptedPods` until
they are deleted, for at most two minutes. A second controller resets the condition DisruptionTarget of pods
that were to be evicted and still run after two minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from kubewright.api.apps.v1 import Deployment, ReplicaSet, StatefulSet
from kubewright.api.conditions import get_condition, set_condition
from kubewright.api.core.v1 import Pod, PodCondition, ReplicationController
from kubewright.api.errors import APIError, Conflict
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import Condition, MetaObject, OwnerReference
from kubewright.api.owners import controller_of
from kubewright.api.policy.v1 import PodDisruptionBudget, PodDisruptionBudgetStatus
from kubewright.api.selectors.label_selectors import Selector, format_label_selector, selector_of
from kubewright.api.values.int_or_string import scaled_value
from kubewright.cache import ObjectChange
from kubewright.client.patches import has_changes
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.pods import PodLister, PodSummary

DELETION_TIMEOUT = 120.0
"""Seconds that an evicted pod counts as disrupted without being deleted."""
STALE_CONDITION_TIMEOUT = 120.0
TARGET = "DisruptionTarget"
_WORKLOADS: dict[str, type[MetaObject]] = {
    "ReplicaSet": ReplicaSet,
    "Deployment": Deployment,
    "StatefulSet": StatefulSet,
    "ReplicationController": ReplicationController,
}


def add_disruption_controller(manager: ComponentManager) -> None:
    """Add the controllers of PodDisruptionBudgets and of stale DisruptionTarget conditions."""
    pods = PodLister(manager.cache)
    budgets = _BudgetSelectors(pods)
    (
        ControllerBuilder[Request](manager, "disruption-controller")
        .watches(PodDisruptionBudget, handler=budgets.update)
        .for_(PodDisruptionBudget)
        .watches(Pod, handler=budgets.budgets_of_pod)
        .complete(BudgetReconciler(manager).reconcile)
    )

    async def reset_condition(request: Request) -> Result | None:
        return await _reset_stale_condition(manager, request)

    (
        ControllerBuilder[Request](manager, "disruption-controller-stale-conditions")
        .watches(Pod, handler=_stale_candidates(pods))
        .complete(reset_condition)
    )


class _BudgetSelectors:
    """The selectors of all budgets, by namespace."""

    def __init__(self, pods: PodLister) -> None:
        self._pods = pods
        self._selectors: dict[str, dict[str, Selector]] = {}

    def update(self, change: ObjectChange) -> Iterable[Request]:
        """Event handler for budgets: record the selector, enqueue nothing."""
        namespace, name = change.key
        if change.new is None:
            self._selectors.get(namespace, {}).pop(name, None)
        else:
            spec = change.new.decode(PodDisruptionBudget).spec
            selector = selector_of(spec.selector if spec is not None else None)
            self._selectors.setdefault(namespace, {})[name] = selector
        return ()

    def budgets_of_pod(self, change: ObjectChange) -> Iterable[Request]:
        """Event handler for pods: enqueue the budgets whose status the change affects."""
        selectors = self._selectors.get(change.key.namespace)
        if not selectors:
            return
        old, new = self._pods.versions(change)
        if old is not None and new is not None and _relevant(old) == _relevant(new):
            return
        for name, selector in selectors.items():
            if any(each is not None and selector.matches(each.labels) for each in (old, new)):
                yield Request(change.key.namespace, name)


def _relevant(pod: PodSummary) -> tuple[object, ...]:
    return pod.labels, pod.is_ready, pod.is_terminating, pod.controller


class BudgetReconciler:
    """Reconciles PodDisruptionBudgets."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client

    async def reconcile(self, budget: PodDisruptionBudget) -> Result | None:
        """Update the status of a budget."""
        try:
            return await self._sync(budget)
        except Conflict:
            raise
        except (APIError, ValueError) as error:
            # Nothing is evicted while the status cannot be computed.
            status = budget.status = budget.status or PodDisruptionBudgetStatus()
            status.disruptions_allowed = 0
            condition = Condition(
                type="DisruptionAllowed",
                status="False",
                reason="SyncFailed",
                message=str(error),
                observed_generation=status.observed_generation,
            )
            set_condition(status, condition)
            if has_changes(budget, part="status"):
                await self._client.update_status(budget)
            return None

    async def _sync(self, budget: PodDisruptionBudget) -> Result | None:
        event = self._manager.recorder.event
        spec = budget.spec
        assert spec is not None
        selector = selector_of(spec.selector)
        pods: list[Pod] = []
        if spec.selector is not None:
            pods += await self._client.list(Pod, namespace=budget.namespace, labels=selector)
        if not pods:
            event(budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected, desired, unmanaged = await self._expected(budget, pods)
        except (APIError, ValueError) as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            raise
        if unmanaged:
            event(budget, "Warning", "UnmanagedPods", _unmanaged_text(format_label_selector(spec.selector)))
        now = self._manager.now()
        disrupted, recheck = self._disrupted(budget, pods, now)
        healthy = sum(
            1
            for pod in pods
            if pod.metadata.deletion_timestamp is None and pod.name not in disrupted and _is_ready(pod)
        )
        status = budget.status = budget.status or PodDisruptionBudgetStatus()
        status.current_healthy = healthy
        status.desired_healthy = desired
        status.expected_pods = expected
        status.disruptions_allowed = max(healthy - desired, 0) if expected > 0 else 0
        status.disrupted_pods = disrupted or None
        status.observed_generation = budget.metadata.generation
        allowed = status.disruptions_allowed > 0
        condition = Condition(
            type="DisruptionAllowed",
            status=str(allowed),
            reason="SufficientPods" if allowed else "InsufficientPods",
            observed_generation=budget.metadata.generation,
        )
        set_condition(status, condition)
        if has_changes(budget, part="status"):
            await self._client.update_status(budget)
        return Result(requeue_after=max((recheck - now).total_seconds(), 0.001)) if recheck else None

    def _disrupted(
        self, budget: PodDisruptionBudget, pods: list[Pod], now: datetime
    ) -> tuple[dict[str, datetime], datetime | None]:
        """Return evicted pods that are not being deleted yet, and when the first of them expires."""
        listed = (budget.status.disrupted_pods if budget.status is not None else None) or {}
        found: dict[str, datetime] = {}
        for pod in pods:
            since = listed.get(pod.name)
            if since is None or pod.metadata.deletion_timestamp is not None:
                continue
            if since + timedelta(seconds=DELETION_TIMEOUT) < now:
                place = f"{budget.namespace}/{budget.namespace}"
                text = f"Pod was expected by PDB {place} to be deleted but it wasn't"
                self._manager.recorder.event(pod, "Warning", "NotDeleted", text)
            else:
                found[pod.name] = since
        first = min(found.values(), default=None)
        return found, first + timedelta(seconds=DELETION_TIMEOUT) if first is not None else None

    async def _expected(self, budget: PodDisruptionBudget, pods: list[Pod]) -> tuple[int, int, list[str]]:
        """Return the number of expected pods, the number that has to be healthy, and unmanaged pods."""
        spec = budget.spec
        assert spec is not None
        if spec.max_unavailable is not None:
            expected, unmanaged = await self._scale_of_owners(pods)
            unavailable = scaled_value(spec.max_unavailable, expected, round_up=True)
            return expected, max(expected - unavailable, 0), unmanaged
        if isinstance(spec.min_available, int):
            return len(pods), spec.min_available, []
        if spec.min_available is None:
            return 0, 0, []
        expected, unmanaged = await self._scale_of_owners(pods)
        return expected, scaled_value(spec.min_available, expected, round_up=True), unmanaged

    async def _scale_of_owners(self, pods: list[Pod]) -> tuple[int, list[str]]:
        """Return the replicas of all controllers of the pods, and the pods without a controller."""
        scales: dict[str, int] = {}
        seen: set[str] = set()
        unmanaged: list[str] = []
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                unmanaged.append(pod.name)
            elif owner.uid not in seen:
                seen.add(owner.uid)
                found = await self._scale(owner, pod.namespace)
                if found is None:
                    raise ValueError(f'found no controllers for pod "{pod.name}"')
                scales[found[0]] = found[1]
        return sum(scales.values()), unmanaged

    async def _scale(self, owner: OwnerReference, namespace: str) -> tuple[str, int] | None:
        """Return uid and replicas of a controller; of a ReplicaSet, those of its Deployment."""
        group = owner.api_version.rpartition("/")[0]
        kind = _WORKLOADS.get(owner.kind) if group in ("", "apps") else None
        if kind is None:
            gvk = GroupVersionKind.from_api_version(owner.api_version, owner.kind)
            scale = await self._client.scale(gvk, owner.name, namespace=namespace)
            return owner.uid, (scale.spec.replicas if scale.spec is not None else None) or 0
        found = await self._client.get_or_none(kind, owner.name, namespace=namespace)
        if found is None or found.metadata.uid != owner.uid:
            return None
        if isinstance(found, ReplicaSet):
            above = controller_of(found)
            if above is not None and above.kind == "Deployment":
                return await self._scale(above, namespace)
        spec: object = getattr(found, "spec", None)
        return owner.uid, int(getattr(spec, "replicas", None) or 0)


def _is_ready(pod: Pod) -> bool:
    ready = get_condition(pod.status, "Ready")
    return ready is not None and ready.status == "True"


def _unmanaged_text(selector: str) -> str:
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a "
        "result, the status of the PDB cannot be calculated correctly, which may result in undefined "
        'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer '
        "value."
    )


def _stale_candidates(pods: PodLister) -> Callable[[ObjectChange], Iterable[Request]]:
    def handler(change: ObjectChange) -> Iterable[Request]:
        _, new = pods.versions(change)
        if new is None or new.is_terminating or new.is_finished:
            return ()
        condition = new.condition(TARGET)
        return (Request(*change.key),) if condition is not None and condition.status == "True" else ()

    return handler


async def _reset_stale_condition(manager: ComponentManager, request: Request) -> Result | None:
    """Set DisruptionTarget to False if the pod was not deleted in time."""
    pod = await manager.client.get_or_none(Pod, request.name, namespace=request.namespace)
    condition = get_condition(pod.status, TARGET) if pod is not None else None
    if (
        pod is None
        or pod.status is None
        or pod.metadata.deletion_timestamp is not None
        or pod.status.phase in ("Succeeded", "Failed")
        or condition is None
        or condition.status != "True"
        or condition.reason == "TerminationByKubelet"
    ):
        return None
    now = manager.now()
    since = condition.last_transition_time or now
    left = STALE_CONDITION_TIMEOUT - (now - since).total_seconds()
    if left > 0:
        return Result(requeue_after=left)
    moment = now.replace(microsecond=0)
    set_condition(pod.status, PodCondition(type=TARGET, status="False", last_transition_time=moment))
    await manager.client.update_status(pod)
    return None
