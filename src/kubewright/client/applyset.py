"""`ApplySet`: objects that are applied, pruned and deleted together.

    shop = ApplySet(client, "shop", namespace="shop-system")
    async for change in shop.apply(objects):       # objects of earlier calls that are missing now are deleted
        print(change)                              # deployment.apps/shop-controller-manager configured
    await shop.wait_until_ready(timeout=120)

The inventory, a ConfigMap, follows the ApplySet specification of kubectl (see `applyset_inventory`). Tools
that implement the specification can list the members; they do not change sets of other tools.

Permissions: get, patch and list of all kinds of the set and of ConfigMaps in the namespace of the parent;
delete to prune.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from kubewright.api.apply_order import NAMESPACES, in_apply_order, phase_of
from kubewright.api.errors import Conflict, NotFound
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.presence import copy_value
from kubewright.api.unstructured import Unstructured
from kubewright.deprecation import renamed_parameter

from .applyset_inventory import ADOPTED_ANNOTATION, ApplySetError, Inventory, SetParent
from .errors import NoKindMatch
from .kind_types import metadata_of
from .membership import PART_OF_LABEL, SET_MARK, FieldManager, SetMember
from .patches import merge_patch
from .readiness import Readiness, readiness_of
from .set_writes import CRD, apply_each, apply_member, deletion_order, remove_member
from .wait import is_deleted

if TYPE_CHECKING:
    from .client import Client

DELETION_TIMEOUT: Final = 60.0
_VOLATILE: Final = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")

Action = Literal["created", "configured", "unchanged", "deleted", "kept", "released"]


@dataclass(frozen=True)
class AppliedChange:
    """What was done with an object of a set, or would be done in a dry run."""

    action: Action
    kind: GroupKind
    name: str
    namespace: str = ""
    before: dict[str, Any] | None = None
    """The stored object before it was applied."""
    after: dict[str, Any] | None = None
    """The stored object after it was applied."""
    reason: str = ""
    """Why an object was not deleted."""

    @property
    def reference(self) -> str:
        """Kind and name, as kubectl prints them: `deployment.apps/web`."""
        group = f".{self.kind.group}" if self.kind.group else ""
        return f"{self.kind.kind.lower()}{group}/{self.name}"

    def __str__(self) -> str:
        return f"{self.reference} {self.action}{f' ({self.reason})' if self.reason else ''}"


class ApplySet:
    """A set of objects whose inventory is a ConfigMap."""

    @renamed_parameter("field_owner", "field_manager")
    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str,
        tooling: str = "kubewright/v1",
        field_manager: str = "kubewright",
        replaced_owners: Collection[str] = (),
    ) -> None:
        """`tooling` is `<name>/<version>`: a set of another tool is not changed. Fields that only managers in
        `replaced_owners` have applied are taken over without `force`."""
        self.client = client.with_field_manager(field_manager)
        self.name = name
        self.namespace = namespace
        self._parent = SetParent(self.client, name, namespace=namespace, tooling=tooling)
        self._manager = FieldManager(field_manager)
        self.id = self._parent.id
        self._replaced_owners = frozenset(replaced_owners)
        self._applied: list[Unstructured] = []

    # Applying

    async def apply(
        self,
        objects: Iterable[Mapping[str, Any]],
        *,
        prune: bool = True,
        kinds: Collection[GroupKind] | None = None,
        force: bool = False,
        dry_run: bool = False,
        delete_custom_objects: bool = False,
    ) -> AsyncIterator[AppliedChange]:
        """Apply objects in the order of their dependencies, and yield each change.

        With `prune`, members that are not in `objects` are deleted at the end, in the reverse order; a CRD
        with custom objects is kept unless `delete_custom_objects`. With `kinds`, only members of these kinds
        are pruned: `objects` is then a part of the set. With `dry_run` nothing is stored.
        """
        wanted = [self._labelled(each) for each in in_apply_order(objects)]
        before = await self._parent.read()
        target = Inventory(
            frozenset(_group_kind(each) for each in wanted),
            frozenset(each["metadata"].get("namespace") or "" for each in wanted) - {"", self.namespace},
        )
        superset = before | target
        self._applied = []

        async def apply(manifest: dict[str, Any]) -> AppliedChange:
            # The namespace of the parent can be a member, so that it must be applied before the parent.
            if not dry_run and phase_of(manifest["apiVersion"], manifest["kind"]) > NAMESPACES:
                await self._parent.extend(superset)
            return await self._apply(manifest, force=force, dry_run=dry_run)

        async for change in apply_each(wanted, apply, describe=_describe):
            assert change.after is not None
            self._applied.append(Unstructured(change.after))
            yield change
        if not dry_run:
            await self._parent.extend(superset)
        if not prune:
            return
        keys = {_key(each) for each in wanted}
        # Other processes can have extended the stored inventory meanwhile.
        members = [
            each
            for each in await self._members(superset | self._parent.inventory)
            if (kinds is None or each.gvk.group_kind in kinds) and _member_key(each) not in keys
        ]
        async for change in self._delete(
            members, dry_run=dry_run, delete_custom_objects=delete_custom_objects, wait=None
        ):
            if change.action == "kept":
                namespaces = frozenset((change.namespace,)) - {"", self.namespace}
                target |= Inventory(frozenset((change.kind,)), namespaces)
            yield change
        if not dry_run and kinds is None:
            await self._parent.reduce(target)

    def _labelled(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        labelled: dict[str, Any] = copy_value(dict(manifest))
        metadata = labelled.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF_LABEL: self.id}
        return labelled

    async def _apply(self, manifest: dict[str, Any], *, force: bool, dry_run: bool) -> AppliedChange:
        metadata = manifest["metadata"]
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        gvk = GroupVersionKind.from_api_version(manifest["apiVersion"], manifest["kind"])
        try:
            before = await self.client.get_or_none(gvk, name, namespace=namespace or None)
        except NoKindMatch:
            if not dry_run:
                self.client.mapper.invalidate()
            before = None
        if before is not None:
            self._require_unowned(before)
            if before.metadata.deletion_timestamp is not None and not dry_run:
                await self._wait_until_deleted(before)
                before = None
        if before is not None and self._is_adopted(before):
            metadata["annotations"] = {**(metadata.get("annotations") or {}), ADOPTED_ANNOTATION: "true"}
        try:
            after = await self._server_side_apply(manifest, force=force, dry_run=dry_run)
        except (NotFound, NoKindMatch):
            if not dry_run:
                raise
            after = manifest  # the namespace or the CRD does not exist yet
        action: Action = "created"
        if before is not None:
            action = "unchanged" if comparable(before.raw) == comparable(after) else "configured"
        found = before.raw if before is not None else None
        return AppliedChange(action, gvk.group_kind, name, namespace, found, after)

    def _is_adopted(self, found: Unstructured) -> bool:
        """Whether an object existed before this set applied it, also if that was in an earlier call."""
        metadata = found.metadata
        if (metadata.labels or {}).get(PART_OF_LABEL) == self.id:
            return ADOPTED_ANNOTATION in (metadata.annotations or {})
        return not any(
            each.operation == "Apply" and each.manager in self._replaced_owners
            for each in metadata.managed_fields or ()
        )

    async def _server_side_apply(
        self, manifest: dict[str, Any], *, force: bool, dry_run: bool
    ) -> dict[str, Any]:
        apply = partial(apply_member, self.client, manifest, self._manager, SET_MARK, dry_run=dry_run)
        try:
            applied = await apply(force=force)
        except Conflict as error:
            owners = {
                found.group(1)
                for cause in error.causes
                if (found := re.match(r'conflict with "([^"]+)"', str(cause.get("message", ""))))
            }
            if not owners or not owners <= self._replaced_owners:
                raise
            applied = await apply(force=True)
        return applied.raw

    async def _wait_until_deleted(self, found: Unstructured) -> None:
        """Wait for the end of an earlier deletion, after which the object can be created again."""
        try:
            await self.client.wait(found, until=is_deleted, timeout=DELETION_TIMEOUT)
        except TimeoutError:
            finalizers = ", ".join(found.metadata.finalizers or ()) or "those of its content"
            raise ApplySetError(
                f"{_describe(found.raw)} is being deleted, and still exists after {DELETION_TIMEOUT:g} s "
                f"(finalizers: {finalizers})"
            ) from None

    def _require_unowned(self, found: Unstructured) -> None:
        """Raise an error if an object is a member of another set."""
        owner = (found.metadata.labels or {}).get(PART_OF_LABEL)
        if owner is not None and owner != self.id:
            raise ApplySetError(
                f"{_describe(found.raw)} is part of another ApplySet ({owner}); remove it from that set, or "
                f"remove its label {PART_OF_LABEL}"
            )

    # Waiting

    async def wait_until_ready(
        self,
        *,
        timeout: float,
        progress: Callable[[AppliedChange, Readiness], None] | None = None,
        rule: Callable[[dict[str, Any]], Readiness] = readiness_of,
    ) -> None:
        """Wait until all applied objects are ready; raise `ApplySetError` if one fails or time runs out.

        `progress` is called for each object that is not ready, and when its state changes. The first state is
        that of the response to the apply request.
        """
        states: dict[str, tuple[AppliedChange, Readiness]] = {}
        try:
            async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
                for obj in self._applied:
                    group.create_task(self._wait_for(obj, states, progress, rule))
        except TimeoutError:
            missing = [f"{change.reference}: {state}" for change, state in states.values()]
            raise ApplySetError(
                f"not ready after {timeout:g} s: {'; '.join(sorted(missing)) or 'no object was read'}"
            ) from None
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _wait_for(
        self,
        obj: Unstructured,
        states: dict[str, tuple[AppliedChange, Readiness]],
        progress: Callable[[AppliedChange, Readiness], None] | None,
        rule: Callable[[dict[str, Any]], Readiness],
    ) -> None:
        change = AppliedChange("unchanged", obj.gvk.group_kind, obj.name, obj.namespace)
        key = f"{change.reference} {obj.namespace}"
        applied = rule(obj.raw)
        if applied.is_ready and "status" not in obj.raw:
            return  # kinds without a status, such as roles, need no watch

        def report(state: Readiness) -> None:
            known = states.get(key)
            if known[1] != state if known is not None else not state.is_ready:
                states[key] = (change, state)
                if progress is not None:
                    progress(change, state)

        def is_ready(found: Unstructured | None) -> bool:
            state = rule(found.raw) if found is not None else Readiness("InProgress", "does not exist")
            report(state)
            if state.is_failed:
                raise ApplySetError(f"{change.reference} failed: {state.message}")
            return state.is_ready

        report(applied)
        await self.client.wait(
            obj.gvk, obj.name, namespace=obj.namespace or None, until=is_ready, timeout=None
        )
        states.pop(key, None)

    # Deleting

    async def members(self) -> list[SetMember]:
        """Return the metadata of all members, by the kinds and namespaces of the inventory."""
        return await self._members(await self._parent.read())

    async def _members(self, inventory: Inventory) -> list[SetMember]:
        return await self._parent.members(inventory, managers=self._manager.names)

    async def delete(
        self,
        *,
        kinds: Collection[GroupKind] | None = None,
        keep: Callable[[SetMember], str] = lambda member: "",
        delete_custom_objects: bool = False,
        dry_run: bool = False,
        timeout: float = 60.0,
    ) -> AsyncIterator[AppliedChange]:
        """Delete the members in the reverse order, and the inventory if no members are kept.

        Objects that existed before they were applied are released: they only lose the label of the set.
        `keep` returns the reason why a member is kept, or an empty string. A CRD with custom objects is kept
        unless `delete_custom_objects`; the objects are then deleted first, while their controller still runs.
        """
        inventory = await self._parent.read()
        members = [
            each for each in await self._members(inventory) if kinds is None or each.gvk.group_kind in kinds
        ]
        kept = kinds is not None
        async for change in self._delete(
            members, keep=keep, delete_custom_objects=delete_custom_objects, dry_run=dry_run, wait=timeout
        ):
            kept = kept or change.action == "kept"
            yield change
        if not kept and not dry_run:
            await self._parent.delete()

    async def _delete(
        self,
        members: list[SetMember],
        *,
        delete_custom_objects: bool,
        dry_run: bool,
        wait: float | None,
        keep: Callable[[SetMember], str] = lambda member: "",
    ) -> AsyncIterator[AppliedChange]:
        ordered = [member for group in deletion_order(members) for member in group]
        if delete_custom_objects:
            # Finalizers of custom objects need the controller, which is deleted below.
            ordered.sort(key=lambda each: each.gvk.group_kind != CRD)
        for member in ordered:
            kind, name, namespace = member.gvk.group_kind, member.name, member.namespace
            if ADOPTED_ANNOTATION in member.annotations:
                if not dry_run:
                    await self._release(member)
                yield AppliedChange("released", kind, name, namespace, reason="existed before it was applied")
                continue
            reason = keep(member)
            if not reason and kind == CRD and not delete_custom_objects:
                count = await self.count_custom_objects(name)
                reason = f"{count} object{'s' if count > 1 else ''} of this kind exist" if count else ""
            if reason:
                yield AppliedChange("kept", kind, name, namespace, reason=reason)
                continue
            if not dry_run:
                await self._delete_member(member, wait)
            yield AppliedChange("deleted", kind, name, namespace)

    async def _release(self, member: SetMember) -> None:
        """Remove the label of the set from an object, which keeps its content."""
        metadata = {"labels": {PART_OF_LABEL: None}, "annotations": {ADOPTED_ANNOTATION: None}}
        with suppress(NotFound):
            await self.client.patch(
                member.gvk,
                member.name,
                merge_patch({"metadata": {**metadata, "uid": member.uid}}),
                namespace=member.namespace or None,
            )

    async def _delete_member(self, member: SetMember, wait: float | None) -> None:
        await remove_member(self.client, member, self._manager, SET_MARK)
        if wait is not None and member.gvk.group_kind == CRD:
            try:
                await self.client.wait(member.gvk, member.name, until=is_deleted, timeout=wait)
            except TimeoutError:
                count = await self.count_custom_objects(member.name)
                raise ApplySetError(
                    f"CustomResourceDefinition {member.name} was not deleted within {wait:g} s: {count} "
                    "objects of it exist; if they have finalizers, the controller that removes these must run"
                ) from None

    async def count_custom_objects(self, definition: str, *, namespace: str | None = None) -> int:
        """Return the number of objects of the kind that a CRD defines; 0 if the CRD does not exist."""
        plural, _, group = definition.partition(".")
        kind = metadata_of(f"{plural}.{group}")
        try:
            return len([each async for each in self.client.list(kind, namespace=namespace)])
        except (NoKindMatch, NotFound, ValueError):
            return 0


def comparable(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without the status and the metadata that every write changes."""
    metadata = {name: value for name, value in (data.get("metadata") or {}).items() if name not in _VOLATILE}
    return {**{name: value for name, value in data.items() if name != "status"}, "metadata": metadata}


def _group_kind(manifest: Mapping[str, Any]) -> GroupKind:
    return GroupKind(manifest["apiVersion"].rpartition("/")[0], manifest["kind"])


def _key(manifest: Mapping[str, Any]) -> tuple[GroupKind, str, str]:
    metadata = manifest["metadata"]
    return _group_kind(manifest), metadata.get("namespace") or "", metadata.get("name") or ""


def _member_key(member: SetMember) -> tuple[GroupKind, str, str]:
    return member.gvk.group_kind, member.namespace, member.name


def _describe(manifest: Mapping[str, Any]) -> str:
    kind, namespace, name = _key(manifest)
    return f"{kind} {f'{namespace}/' if namespace else ''}{name}"
