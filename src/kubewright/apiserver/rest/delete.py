"""Deleting objects: finalizers, grace, propagation, preconditions.

An object with finalizers, or with a period of grace, stays: it gets a deletionTimestamp and goes when the
last finalizer is removed (see `writes`). Otherwise it is gone at once; of a kind that knows grace, it is
first marked and then removed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kubewright.api.errors import MODIFIED, conflict, not_found
from kubewright.api.gvk import GroupResource
from kubewright.api.times import format_time
from kubewright.apiserver.objects import Object, current_timestamp
from kubewright.apiserver.strategy import Operation
from kubewright.storage.contract import KeyValue, RevisionMismatch

from .options import DeletionOptions
from .writes import UPDATE_ATTEMPTS, admission_request, settle

if TYPE_CHECKING:
    from .store import ResourceStore

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


async def delete(
    store: ResourceStore, op: Operation, options: DeletionOptions, *, admit: bool = True
) -> tuple[Object, bool]:
    """Delete one object; returns it as it was or now is (requested version), and whether it is gone.

    `admit` is false where admission is not to be asked: a server that clears away what nobody can keep.
    """
    resource = store.resource
    for _ in range(UPDATE_ATTEMPTS):
        item = await store.storage.get(store.key(op.namespace, op.name))
        if item is None:
            raise not_found(resource.group_resource, op.name)
        try:
            return await _delete_once(store, op, item, options, admit)
        except RevisionMismatch:
            continue
    raise conflict(resource.group_resource, op.name, MODIFIED)


async def _delete_once(
    store: ResourceStore, op: Operation, item: KeyValue, options: DeletionOptions, admit: bool
) -> tuple[Object, bool]:
    resource, strategy, admission = store.resource, store.resource.strategy, store.server.admission
    version = resource.version(resource.hub_version) if resource.hub_version else op.version
    assert version is not None
    obj = await store.load(item, version)
    _check_preconditions(store, op, obj, options)
    admit = admit and (admission.has_mutating or admission.has_validating)
    if admit:
        await _admit(store, op, item)
    metadata = obj["metadata"]
    pending = "deletionTimestamp" in metadata
    grace = max_grace = 0
    if strategy.graceful:
        requested = options.grace_period
        if requested is not None and requested < 0:
            requested = 1
        grace = strategy.grace_period(op, obj, requested)
        if pending:
            max_grace = metadata.get("deletionGracePeriodSeconds") or 0
            grace = min(grace, max_grace)
    finalizers = list(metadata.get("finalizers") or ())
    if not (pending and grace and not finalizers):
        finalizers = _propagated(finalizers, options, strategy.default_propagation)
    before = dict(metadata)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if not pending:
        moment = datetime.now(UTC) + timedelta(seconds=grace)
        metadata["deletionTimestamp"] = format_time(moment) if grace else current_timestamp()
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif strategy.graceful and grace < max_grace:
        metadata["deletionGracePeriodSeconds"] = grace
        metadata["deletionTimestamp"] = format_time(datetime.now(UTC) + timedelta(seconds=grace))
    await settle(strategy.before_delete(op, obj))
    if (
        metadata.get("finalizers")
        or metadata.get("deletionGracePeriodSeconds")
        or not strategy.may_vanish(obj)
    ):
        if metadata != before and not op.dry_run:
            value = await store.pack(obj, version.name)
            if value != item.value:
                revision = await store.storage.update(
                    item.key, value, expected=item.mod_revision, ttl=strategy.ttl
                )
                store.written = revision
                metadata["resourceVersion"] = str(revision)
                await settle(strategy.stored(op, obj, obj))
        return await store.convert(obj, version.name, op.version.name), False
    revision = item.mod_revision
    if strategy.graceful and metadata != before:
        # Who has no grace left is told so before being gone: watchers and webhooks see both.
        if not op.dry_run:
            value = await store.pack(obj, version.name)
            revision = await store.storage.update(item.key, value, expected=revision, ttl=strategy.ttl)
            item = KeyValue(item.key, value, item.create_revision, revision)
        if admit:
            await _admit(store, op, item)
    if not op.dry_run:
        store.written = await store.storage.delete(item.key, expected=revision)
        await settle(strategy.deleted(op, obj))
        before["resourceVersion"] = metadata["resourceVersion"] = str(store.written)
    if not strategy.graceful:
        obj["metadata"] = before
    return await store.convert(obj, version.name, op.version.name), True


async def _admit(store: ResourceStore, op: Operation, item: KeyValue) -> None:
    question = admission_request(store, op, "DELETE", None, await store.load(item, op.version))
    if op.collective:
        question.name = ""
    await store.server.admission.mutate(question)
    await store.server.admission.validate(question)


def _check_preconditions(store: ResourceStore, op: Operation, obj: Object, options: DeletionOptions) -> None:
    metadata, resource = obj["metadata"], store.resource
    for what, wanted, found, why in (
        ("UID", options.uid, metadata.get("uid"), "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, metadata["resourceVersion"], "modified"),
    ):
        if wanted is None or wanted == found:
            continue
        if resource.strategy.checks_deletion_itself:
            text = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            raise conflict(resource.group_resource, op.name, text)
        raise conflict(
            GroupResource(resource.group, resource.kind),
            op.name,
            f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). "
            f"The object might have been {why}",
        )


def _propagated(finalizers: list[str], options: DeletionOptions, default: str) -> list[str]:
    """The finalizers after the propagation policy has had its say."""
    policy = options.propagation
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if default == "Unsupported":
        policy = "Background"
    elif policy is None:
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        else:
            policy = default
    kept = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    return kept
