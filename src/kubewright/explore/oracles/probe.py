"""`Probe`: what a variation can do in a run, and what it can observe."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError
from kubewright.api.unstructured import Unstructured
from kubewright.client.patches import merge_patch
from kubewright.explore.final_state import Difference, NormalisedState, differences, normalise
from kubewright.explore.scenarios.steps import FIELD_MANAGER
from kubewright.explore.state import is_of_user

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.explore.runs.run import SimulatedRun
    from kubewright.explore.runs.run_result import Run
    from kubewright.explore.state import ClusterState, StateObject

LONGEST_DELAY = 3700.0
"""Virtual seconds for which a request may wait in a queue, for example after failures or between polls."""
MAX_DIFFERENCES = 3
NAMESPACE = "second"
"""Namespace of copies of objects of the user."""


class Probe:
    """The running cluster of a variation."""

    def __init__(self, run: SimulatedRun) -> None:
        self.run = run
        self.is_time_driven = False
        """Whether something has changed only because time has passed."""
        self.external_at_start = {name: set(data) for name, data in run.cluster.external.data.items()}

    @property
    def client(self) -> Client:
        """The client of the scenario."""
        return self.run.cluster.client

    @property
    def reference(self) -> Run:
        """The reference run."""
        assert self.run.reference is not None
        return self.run.reference

    @property
    def cluster_state(self) -> ClusterState:
        """The current state."""
        return self.run.cluster.recorder.snapshot(time=self.run.loop.now)

    def state(self) -> NormalisedState:
        """Return the current state for comparisons within the run.

        Values of Secrets are compared.
        """
        return normalise(self.cluster_state, self.run.cluster.external.data, compare_secrets=True)

    def differences(self, before: NormalisedState, after: NormalisedState) -> list[Difference]:
        """Return what differs between two states of this run, without what changes periodically."""
        return differences(before, after, self.tolerances)

    async def differences_from_reference(self) -> list[Difference]:
        """Return what differs from the final state of the reference run when the operator is idle."""

        def found() -> list[Difference]:
            state = normalise(self.cluster_state, self.run.cluster.external.data)
            return differences(self.reference.final_state, state, (*self.tolerances, *self.run.random))

        await self.settle(lambda: not found())
        return found()

    @property
    def tolerances(self) -> tuple[str, ...]:
        """Fields that the user tolerates, and what changes periodically."""
        return (*self.run.tolerances, *self.run.periodic)

    def find(self, name: str, message: str, found: Sequence[Difference] = ()) -> None:
        """Report a violation."""
        more = f" and {len(found) - MAX_DIFFERENCES} more" if len(found) > MAX_DIFFERENCES else ""
        what = "; ".join(map(str, found[:MAX_DIFFERENCES]))
        self.run.find(name, f"{message}: {what}{more}" if found else message)

    async def settle(self, until: Callable[[], bool] | None = None) -> bool:
        """Wait until the operator is idle; return whether it is, within the timeout of the scenario.

        It is idle if nothing has changed for the quiet period, and every request that waits in a queue has
        been processed since. With `until`, wait longer if that is not the case: requests may be retried.
        """
        cluster, loop, scenario = self.run.cluster, self.run.loop, self.run.scenario
        started = loop.now
        deadline = started + max(scenario.timeout, 2 * LONGEST_DELAY)
        while loop.now < deadline:
            since = max(cluster.changed_at, started)
            quiet = scenario.quiet_seconds - (loop.now - since)
            if quiet > 0:
                await asyncio.sleep(quiet + 0.01)
                continue
            delay = self._longest_delay()
            if 0 < delay < LONGEST_DELAY:
                await asyncio.sleep(delay + 1.0)
                if cluster.changed_at > since:
                    self.is_time_driven = True
                    continue
            if until is None or until() or loop.now - since > scenario.timeout:
                return True
            await asyncio.sleep(scenario.quiet_seconds)
        return False

    def _longest_delay(self) -> float:
        return max(
            (
                each.queue.longest_delay
                for process in self.run.cluster.processes
                for each in process.controllers
                if each.queue is not None
            ),
            default=0.0,
        )

    def restart(self) -> None:
        """Kill all processes of the operator and start them again immediately."""
        for process in list(self.run.cluster.processes):
            self.run.cluster.restart(process)

    def resync(self) -> None:
        """Reconcile all objects again."""
        self.run.cluster.record("log", "", "all objects are reconciled again")
        for process in self.run.cluster.processes:
            for controller in process.controllers:
                controller.replay()

    # Objects of the user

    def user_objects(self) -> list[StateObject]:
        """Return the objects that a user has created in the setup and the steps, oldest first."""
        state = self.cluster_state
        found = [*state.baseline.values(), *state.objects.values()]
        return sorted(filter(is_of_user, found), key=lambda each: each.create_revision)

    def custom_objects(self) -> list[StateObject]:
        """Return those objects of the user whose kind has a CustomResourceDefinition."""
        return [each for each in self.user_objects() if each.key[:2] in self.custom_kinds]

    def reconciled_objects(self) -> list[StateObject]:
        """Return the custom resources of the user that the operator reconciles, not those that it reads."""
        requests = {each.text.partition(" ")[2] for each in self.reference.trace.points("reconcile")}
        found = [each for each in self.custom_objects() if not each.is_deleting]
        return [
            each
            for each in found
            if (f"{each.namespace}/{each.name}" if each.namespace else each.name) in requests
        ]

    @cached_property
    def leaves_objects(self) -> bool:
        """Whether custom resources of the user exist at the end of the reference run."""
        state = self.reference.state
        return state is not None and any(
            is_of_user(each) and each.key[:2] in self.custom_kinds and not each.is_deleting
            for objects in (state.baseline, state.objects)
            for each in objects.values()
        )

    @property
    def custom_kinds(self) -> set[tuple[str, str]]:
        """Groups and kinds with a CustomResourceDefinition."""
        return {(each.get("spec", "group"), each.get("spec", "names", "kind")) for each in self.definitions()}

    def definitions(self) -> list[StateObject]:
        """Return the CustomResourceDefinitions."""
        baseline = self.run.cluster.recorder.state.baseline
        return [each for each in baseline.values() if each.key.kind == "CustomResourceDefinition"]

    async def create(self, data: dict[str, Any]) -> bool:
        """Apply an object as the user; return False if it is rejected."""
        try:
            await self.client.apply(Unstructured(data), force=True, field_manager=FIELD_MANAGER)
        except APIError:
            return False
        return True

    async def copy_to_namespace(self, obj: StateObject) -> dict[str, Any] | None:
        """Create a copy of an object, and of what it may refer to, in another namespace."""
        await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for each in self.user_objects():
            if each.namespace == obj.namespace and each.key.kind in ("ConfigMap", "Secret"):
                used = copy.deepcopy(desired_of(each))
                used["metadata"]["namespace"] = NAMESPACE
                await self.create(used)
        data = self.copy_of(obj, namespace=NAMESPACE)
        return data if await self.create(data) else None

    def copy_of(self, obj: StateObject, *, name: str = "", namespace: str = "") -> dict[str, Any]:
        """Return an object with another name or namespace; what it names of the operator is renamed."""
        data = copy.deepcopy(desired_of(obj))
        if namespace:
            data["metadata"]["namespace"] = namespace
        if name:
            data["metadata"]["name"] = name
        names = {each.name for each in self.cluster_state if not is_of_user(each)}
        for data_of in self.run.cluster.external.data.values():
            names.update(data_of)
        data["spec"] = _renamed(data.get("spec"), names)
        return data

    async def patch(self, obj: StateObject, change: dict[str, Any]) -> bool:
        """Patch an object as the user; return False if it is rejected."""
        try:
            await self.client.patch(
                kind_of(obj),
                obj.name,
                merge_patch(change),
                namespace=obj.namespace or None,
                field_manager=FIELD_MANAGER,
            )
        except APIError:
            return False
        return True

    async def delete(self, obj: StateObject) -> None:
        """Delete an object as the user, if it exists."""
        await self.client.delete(kind_of(obj), obj.name, namespace=obj.namespace or None, missing_ok=True)


def kind_of(obj: StateObject) -> Any:
    """Return the kind of an object for requests."""
    from kubewright.api.gvk import GroupVersionKind

    version = str(obj.data.get("apiVersion", "")).rpartition("/")[2]
    return GroupVersionKind(obj.key.group, version, obj.key.kind)


def desired_of(obj: StateObject) -> dict[str, Any]:
    """Return an object as a user would create it again."""
    data = {name: value for name, value in obj.data.items() if name != "status"}
    kept = {
        name: obj.metadata[name]
        for name in ("name", "namespace", "labels", "annotations")
        if name in obj.metadata
    }
    return {**data, "metadata": kept}


def _renamed(value: Any, names: set[str]) -> Any:
    """Return a spec in which texts that name objects of the operator are other ones."""
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return f"{value}-2" if isinstance(value, str) and value in names else value
