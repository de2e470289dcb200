"""The controller of Deployments.

Permissions: get, list, watch and patch of Deployments and their status; list, watch, create, patch and delete
of ReplicaSets; list and watch of Pods; create and patch of Events.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.apps.v1 import Deployment, ReplicaSet
from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import Pod
from kubewright.api.errors import AlreadyExists, APIError
from kubewright.api.owners import is_controlled_by
from kubewright.api.selectors.label_selectors import selector_of
from kubewright.cache.stores.store import ObjectChange, ObjectKey
from kubewright.client.patches import changes_since_read
from kubewright.controller import ControllerBuilder, Request, Result, TemporaryError
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.controller_refs import ControllerRefs
from kubewright.workloads.owned_objects import owned_objects, possible_owners
from kubewright.workloads.pod_control import is_namespace_terminating
from kubewright.workloads.template_hash import template_hash

from . import progress, strategy
from .replica_sets import (
    HASH_LABEL,
    NOT_COPIED,
    REVISION,
    ROLLBACK_TO,
    active,
    desired_replicas,
    find_new,
    is_rolling_update,
    last_revision,
    new_replica_set,
    replicas_of,
    revision_of,
    same_template,
    set_new_annotations,
    set_replicas_annotations,
    spec_of,
    status_of,
)

WORKERS = 5
_NO_LIMIT = (1 << 31) - 1


def add_deployment_controller(manager: ComponentManager) -> None:
    """Add the controller of Deployments."""
    controller = DeploymentController(manager)
    builder: ControllerBuilder[Request] = ControllerBuilder(manager, "deployment-controller")
    builder.for_(Deployment).owns(ReplicaSet)
    builder.watches(ReplicaSet, handler=controller.enqueue_adopters)
    builder.watches(Pod, handler=controller.enqueue_recreated)
    builder.with_options(workers=WORKERS).complete(controller.reconcile)


class DeploymentController:
    """Reconciles Deployments. Each reconcile writes the status at most once, at its end."""

    def __init__(self, manager: ComponentManager) -> None:
        self.manager = manager
        self.client = manager.client
        self.recorder = manager.recorder

    # Event handlers

    def enqueue_adopters(self, change: ObjectChange) -> Iterable[Request]:
        """Enqueue the Deployments that could adopt a ReplicaSet without a controller."""
        if change.new is None:
            return ()
        metadata = change.new.header().metadata
        if any(owner.controller for owner in metadata.owner_references or ()):
            return ()
        return possible_owners(self.manager.cache, Deployment, change.key.namespace, metadata.labels)

    def enqueue_recreated(self, change: ObjectChange) -> Iterable[Request]:
        """Enqueue a Deployment that waits for the deletion of its pods (strategy Recreate)."""
        if change.new is not None:
            return ()
        old, _ = self.manager.pods.versions(change)
        owner = old.controller if old is not None else None
        informer = self.manager.cache.existing_informer(ReplicaSet)
        if owner is None or owner.kind != "ReplicaSet" or informer is None:
            return ()
        entry = informer.store.get(ObjectKey(change.key.namespace, owner.name))
        owners = (entry.header().metadata.owner_references if entry is not None else None) or ()
        return [
            Request(change.key.namespace, each.name)
            for each in owners
            if each.controller and each.kind == "Deployment"
        ]

    # Reconcile

    async def reconcile(self, deployment: Deployment) -> Result | None:
        """Bring the ReplicaSets closer to the spec and update the status."""
        if deployment.spec is None:
            return None
        selector = spec_of(deployment).selector
        if selector is not None and not selector.match_labels and not selector.match_expressions:
            message = "This deployment is selecting all pods. A non-empty selector is required."
            self.recorder.event(deployment, "Warning", "SelectingAll", message)
            progress.current_status(deployment).observed_generation = deployment.metadata.generation
            await self._write(deployment)
            return None
        owned = await owned_objects(self.manager.cache, ReplicaSet, deployment)
        refs = ControllerRefs(self.client, deployment, ReplicaSet, selector_of(selector))
        replica_sets = await refs.claim(owned)
        now = self.manager.now()
        before = _written_parts(deployment)
        try:
            await self._sync(deployment, replica_sets)
        finally:
            if _written_parts(deployment) != before:
                await self._write(deployment)
        delay = progress.seconds_until_deadline(deployment, now)
        return Result(requeue_after=delay) if delay is not None else None

    async def _sync(self, deployment: Deployment, replica_sets: list[ReplicaSet]) -> None:
        if deployment.metadata.deletion_timestamp is not None:
            new = await self._sync_new(deployment, replica_sets)
            self._set_status(deployment, replica_sets, new)
            return
        self._check_paused(deployment)
        if spec_of(deployment).paused:
            await self._scale(deployment, replica_sets)
        elif ROLLBACK_TO in (deployment.metadata.annotations or {}):
            await self._roll_back(deployment, replica_sets)
        elif strategy.is_scaling(deployment, replica_sets):
            await self._scale(deployment, replica_sets)
        elif is_rolling_update(deployment):
            await self._roll(deployment, replica_sets)
        else:
            await self._recreate(deployment, replica_sets)

    def _check_paused(self, deployment: Deployment) -> None:
        """Set the condition Progressing to Unknown when the Deployment is paused or resumed."""
        status = progress.current_status(deployment)
        condition = get_condition(status.conditions or [], progress.PROGRESSING)
        reason = condition.reason if condition is not None else None
        if not progress.has_progress_deadline(deployment) or reason == progress.PROGRESS_DEADLINE_EXCEEDED:
            return
        now = self.manager.now()
        if spec_of(deployment).paused and reason != progress.PAUSED:
            message = "Deployment is paused"
            progress.set_condition(status, now, progress.PROGRESSING, "Unknown", progress.PAUSED, message)
        elif not spec_of(deployment).paused and reason == progress.PAUSED:
            message = "Deployment is resumed"
            progress.set_condition(status, now, progress.PROGRESSING, "Unknown", progress.RESUMED, message)

    async def _roll(self, deployment: Deployment, replica_sets: list[ReplicaSet]) -> None:
        new = await self._sync_new(deployment, replica_sets, create=True)
        assert new is not None
        old = _without(replica_sets, new)
        everything = [*old, new]
        desired, current = desired_replicas(deployment), replicas_of(new)
        wanted = desired if current > desired else strategy.new_replicas(deployment, everything, new)
        if wanted != current:
            await self._resize(deployment, new, wanted)
        else:
            plan = strategy.plan_scale_down(deployment, new, old)
            for each, size in plan:
                await self._resize(deployment, each, size)
            if not plan and progress.is_complete(deployment, progress.current_status(deployment)):
                await self._clean_up(deployment, old)
        self._set_status(deployment, everything, new, rollout=True)

    async def _recreate(self, deployment: Deployment, replica_sets: list[ReplicaSet]) -> None:
        new = await self._sync_new(deployment, replica_sets)
        old = _without(replica_sets, new)
        running = active(old)
        for each in running:
            await self._resize(deployment, each, 0)
        if not running and not await self._has_old_pods(deployment, old):
            if new is None:
                new = await self._sync_new(deployment, replica_sets, create=True)
                assert new is not None
            await self._resize(deployment, new, desired_replicas(deployment))
            if progress.is_complete(deployment, progress.current_status(deployment)):
                await self._clean_up(deployment, old)
        self._set_status(deployment, [*old, new] if new is not None else old, new, rollout=True)

    async def _has_old_pods(self, deployment: Deployment, old: list[ReplicaSet]) -> bool:
        if any(status_of(each).replicas for each in old):
            return True
        for each in old:
            pods = await self.manager.pods.owned_by(each.metadata.uid or "", deployment.namespace)
            if any(not pod.is_finished for pod in pods):
                return True
        return False

    async def _scale(self, deployment: Deployment, replica_sets: list[ReplicaSet]) -> None:
        """Scale without rolling out: the Deployment is paused, or its number of replicas has changed."""
        new = await self._sync_new(deployment, replica_sets)
        old = _without(replica_sets, new)
        plan, annotate = strategy.plan_scaling(deployment, new, old)
        for each, size in plan:
            await self._resize(deployment, each, size, annotate=annotate)
        if spec_of(deployment).paused and ROLLBACK_TO not in (deployment.metadata.annotations or {}):
            await self._clean_up(deployment, old)
        self._set_status(deployment, [*old, new] if new is not None else old, new)

    # ReplicaSets

    async def _sync_new(
        self, deployment: Deployment, replica_sets: list[ReplicaSet], *, create: bool = False
    ) -> ReplicaSet | None:
        """Return the ReplicaSet of the current template, with revision and annotations up to date."""
        new = find_new(deployment, replica_sets)
        revision = max((revision_of(each) for each in _without(replica_sets, new)), default=0) + 1
        if new is None:
            return await self._create(deployment, replica_sets, revision) if create else None
        assert new.spec is not None
        changed = set_new_annotations(new, deployment, revision, exists=True)
        if (new.spec.min_ready_seconds or 0) != (spec_of(deployment).min_ready_seconds or 0):
            new.spec.min_ready_seconds = spec_of(deployment).min_ready_seconds
            changed = True
        if changed:
            await self.client.patch(new)
        _set_revision(deployment, (new.metadata.annotations or {}).get(REVISION, ""))
        status = progress.current_status(deployment)
        if (
            progress.has_progress_deadline(deployment)
            and get_condition(status.conditions or [], progress.PROGRESSING) is None
        ):
            self._set_progressing(
                deployment, "True", progress.FOUND_NEW_REPLICA_SET, f'Found new replica set "{new.name}"'
            )
        return new

    async def _create(
        self, deployment: Deployment, replica_sets: list[ReplicaSet], revision: int
    ) -> ReplicaSet:
        status = progress.current_status(deployment)
        template = spec_of(deployment).template
        assert template is not None
        new = new_replica_set(deployment, template_hash(template, status.collision_count))
        assert new.spec is not None
        new.spec.replicas = strategy.new_replicas(deployment, [*replica_sets, new], new)
        set_new_annotations(new, deployment, revision, exists=False)
        name, count = new.name, replicas_of(new)
        try:
            await self.client.create(new)
        except AlreadyExists:
            return await self._resolve_collision(deployment, name, revision)
        except APIError as error:
            if not is_namespace_terminating(error):
                self._report_failed_creation(deployment, name, error)
            raise
        if count > 0:
            message = f"Scaled up replica set {name} from 0 to {count}"
            self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
        _set_revision(deployment, str(revision))
        if progress.has_progress_deadline(deployment):
            self._set_progressing(
                deployment, "True", progress.NEW_REPLICA_SET_CREATED, f'Created new replica set "{name}"'
            )
        return new

    async def _resolve_collision(self, deployment: Deployment, name: str, revision: int) -> ReplicaSet:
        """Return the existing ReplicaSet if it is the right one; else use another hash from now on."""
        found = await self.client.uncached.get(ReplicaSet, name, namespace=deployment.namespace)
        template = found.spec.template if found.spec is not None else None
        if is_controlled_by(found, deployment) and same_template(template, spec_of(deployment).template):
            _set_revision(deployment, str(revision))
            return found
        status = progress.current_status(deployment)
        status.collision_count = (status.collision_count or 0) + 1
        raise TemporaryError(f"hash collision with replica set {name}", delay=0.005)

    def _report_failed_creation(self, deployment: Deployment, name: str, error: APIError) -> None:
        message = f'Failed to create new replica set "{name}": {error}'
        if progress.has_progress_deadline(deployment):
            self._set_progressing(deployment, "False", progress.REPLICA_SET_CREATE_ERROR, message)
        self.recorder.event(deployment, "Warning", progress.REPLICA_SET_CREATE_ERROR, message)

    async def _resize(
        self, deployment: Deployment, replica_set: ReplicaSet, size: int, *, annotate: bool = False
    ) -> None:
        """Set the number of replicas; with `annotate`, also correct annotations alone."""
        assert replica_set.spec is not None
        before = replicas_of(replica_set)
        if size == before and not annotate:
            return
        annotated = set_replicas_annotations(replica_set, deployment)
        if size == before and not annotated:
            return
        replica_set.spec.replicas = size
        await self.client.patch(replica_set)
        if size != before:
            direction = "up" if before < size else "down"
            message = f"Scaled {direction} replica set {replica_set.name} from {before} to {size}"
            self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)

    async def _clean_up(self, deployment: Deployment, old: list[ReplicaSet]) -> None:
        """Delete the oldest ReplicaSets above the limit of the history."""
        limit = spec_of(deployment).revision_history_limit
        if limit in (None, _NO_LIMIT):
            return
        alive = [each for each in old if each.metadata.deletion_timestamp is None]
        alive.sort(key=lambda each: (revision_of(each), each.metadata.creation_timestamp, each.name))
        for each in alive[: max(0, len(alive) - (limit or 0))]:
            status = status_of(each)
            observed = (status.observed_generation or 0) >= (each.metadata.generation or 0)
            if not status.replicas and not replicas_of(each) and observed:
                await self.client.delete(ReplicaSet, each.name, namespace=each.namespace, missing_ok=True)

    async def _roll_back(self, deployment: Deployment, replica_sets: list[ReplicaSet]) -> None:
        """Roll back to the revision in the annotation of the former API."""
        new = await self._sync_new(deployment, replica_sets, create=True)
        everything = [*_without(replica_sets, new), *([new] if new is not None else [])]
        text = (deployment.metadata.annotations or {})[ROLLBACK_TO]
        revision = int(text) if text.isdecimal() else 0
        revision = revision or last_revision(everything)
        target = next((each for each in everything if revision and revision_of(each) == revision), None)
        if target is None:
            text = "the revision to rollback to" if revision else "last revision"
            reason, message = "DeploymentRollbackRevisionNotFound", f"Unable to find {text}."
            self.recorder.event(deployment, "Warning", reason, message)
        elif target.spec is not None and not same_template(
            target.spec.template, spec_of(deployment).template
        ):
            _use_template_of(deployment, target)
            message = f'Rolled back deployment "{deployment.name}" to revision {revision}'
            self.recorder.event(deployment, "Normal", "DeploymentRollback", message)
        else:
            message = (
                f'The rollback revision contains the same template as current deployment "{deployment.name}"'
            )
            self.recorder.event(deployment, "Warning", "DeploymentRollbackTemplateUnchanged", message)
        annotations = dict(deployment.metadata.annotations or {})
        annotations.pop(ROLLBACK_TO, None)
        deployment.metadata.annotations = annotations
        await self.client.patch(deployment)

    # Status

    def _set_progressing(self, deployment: Deployment, value: str, reason: str, message: str) -> None:
        status = progress.current_status(deployment)
        progress.set_condition(status, self.manager.now(), progress.PROGRESSING, value, reason, message)

    def _set_status(
        self,
        deployment: Deployment,
        replica_sets: list[ReplicaSet],
        new: ReplicaSet | None,
        *,
        rollout: bool = False,
    ) -> None:
        now = self.manager.now()
        status = progress.new_status(deployment, replica_sets, new, now)
        if rollout:
            progress.set_progress(deployment, status, replica_sets, new, now)
        deployment.status = status

    async def _write(self, deployment: Deployment) -> None:
        """Write status and annotations through the status subresource."""
        patch = changes_since_read(deployment, optimistic_lock=False)
        if patch is not None:
            await self.client.patch(deployment, patch, subresource="status")


def _written_parts(deployment: Deployment) -> tuple[object, object]:
    status = deployment.status
    return status.copy() if status is not None else None, dict(deployment.metadata.annotations or {})


def _without(replica_sets: list[ReplicaSet], new: ReplicaSet | None) -> list[ReplicaSet]:
    if new is None:
        return replica_sets
    return [each for each in replica_sets if each.metadata.uid != new.metadata.uid]


def _set_revision(deployment: Deployment, revision: str) -> None:
    annotations = deployment.metadata.annotations or {}
    if annotations.get(REVISION) != revision:
        deployment.metadata.annotations = {**annotations, REVISION: revision}


def _use_template_of(deployment: Deployment, replica_set: ReplicaSet) -> None:
    """Copy template and annotations of a ReplicaSet to its Deployment."""
    assert replica_set.spec is not None
    assert replica_set.spec.template is not None
    template = replica_set.spec.template.copy()
    if template.metadata is not None and template.metadata.labels:
        labels = template.metadata.labels
        template.metadata.labels = {key: labels[key] for key in labels if key != HASH_LABEL}
    spec_of(deployment).template = template
    kept = {key: value for key, value in (deployment.metadata.annotations or {}).items() if key in NOT_COPIED}
    source = replica_set.metadata.annotations or {}
    deployment.metadata.annotations = kept | {key: source[key] for key in source if key not in NOT_COPIED}
