"""`InputWriter`: writes the inputs of a replay to the storage of its control plane, as they were recorded.

Nothing is validated, defaulted or admitted again: that happened before they were recorded. UIDs in owner
references are replaced by those of the same objects in the replay.

A change of an object that does not exist yet, because the operator creates it later than the recorded one
did, is made when it is created. A change of an object that this version has replaced by another is left out.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.values.times import format_time, now
from kubewright.patch import merge_patch
from kubewright.recording.recording import Object, RecordedKey
from kubewright.storage import KeyExists, RevisionMismatch

if TYPE_CHECKING:
    from kubewright.controlplane import ControlPlane

    from .history import ReplayHistory
    from .inputs import RecordedInputs, ReplayInput


class InputWriter:
    """Writes inputs."""

    def __init__(self, plane: ControlPlane, history: ReplayHistory, recorded: RecordedInputs) -> None:
        self.applied = 0
        self.skipped: list[str] = []
        """Inputs that could not be repeated, with the reason."""
        self._plane = plane
        self._history = history
        self._recorded = recorded
        self._waiting: dict[RecordedKey, list[ReplayInput]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        history.on_created = self._created

    async def write(self, each: ReplayInput) -> None:
        """Write an input now, or when its object exists."""
        store = self._store(each.key)
        if store is None:
            self.skipped.append(f"{each}: the kind is not served")
            return
        if each.key in self._waiting:
            self._waiting[each.key].append(each)
            return
        known = self._history.incarnations.get(each.key, [])
        exists = each.key in self._history.current
        if each.type == "create":
            if exists:
                self.skipped.append(f"{each}: it exists already")
            else:
                await self._create(store, each)
        elif len(known) - 1 < each.incarnation:
            self._waiting[each.key] = [each]
        elif len(known) - 1 > each.incarnation or not exists:
            self.skipped.append(f"{each}: this version has deleted or replaced it")
        elif each.type == "patch":
            await self._patch(store, each)
        else:
            await self._delete(store, each)

    def finish(self) -> None:
        """Report inputs that are still waiting for their object."""
        for waiting in self._waiting.values():
            self.skipped += [f"{each}: it was not created" for each in waiting]
        self._waiting.clear()

    def _created(self, key: RecordedKey) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return

        async def write() -> None:
            for each in waiting:
                await self.write(each)

        task = asyncio.get_running_loop().create_task(write(), context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _store(self, key: RecordedKey) -> Any:
        for store in self._plane.server.stores:
            if (store.resource.group, store.resource.kind) == (key.group, key.kind):
                return store
        return None

    async def _create(self, store: Any, each: ReplayInput) -> None:
        key = store.key(each.key.namespace, each.key.name)
        self._expect()
        try:
            await self._plane.storage.create(key, self._encode(each.object))
            self.applied += 1
        except KeyExists:
            self.skipped.append(f"{each}: it exists already")

    async def _patch(self, store: Any, each: ReplayInput) -> None:
        await self._update(store, each, each.patch)

    async def _update(self, store: Any, each: ReplayInput, patch: Object) -> None:
        key = store.key(each.key.namespace, each.key.name)
        while True:
            item = await self._plane.storage.get(key)
            if item is None:
                self.skipped.append(f"{each}: this version has deleted it")
                return
            before: Object = msgspec.json.decode(item.value)
            after = merge_patch.apply(before, patch)
            metadata = after["metadata"]
            if any(name not in ("metadata", "status") for name in patch) and "generation" in metadata:
                after = {**after, "metadata": {**metadata, "generation": metadata["generation"] + 1}}
            self._expect()
            try:
                if after.get("metadata", {}).get("deletionTimestamp") and not metadata.get("finalizers"):
                    await self._plane.storage.delete(key, expected=item.mod_revision)
                else:
                    await self._plane.storage.update(key, self._encode(after), expected=item.mod_revision)
                self.applied += 1
                return
            except RevisionMismatch:
                continue

    async def _delete(self, store: Any, each: ReplayInput) -> None:
        current = self._history.current[each.key]
        metadata = current.get("metadata") or {}
        if metadata.get("finalizers"):
            if not metadata.get("deletionTimestamp"):
                # This version has added a finalizer: the object waits for it.
                await self._update(store, each, {"metadata": {"deletionTimestamp": format_time(now())}})
            else:
                self.skipped.append(f"{each}: it has finalizers")
            return
        key = store.key(each.key.namespace, each.key.name)
        item = await self._plane.storage.get(key)
        if item is not None:
            self._expect()
            await self._plane.storage.delete(key, expected=item.mod_revision)
            self.applied += 1

    def _expect(self) -> None:
        """Mark the next revision as that of an input; the storage in memory writes without waiting."""
        keyspace = self._plane.store.keyspace  # type: ignore[attr-defined]
        self._history.expect_input(keyspace.revision + 1)

    def _encode(self, obj: Object) -> bytes:
        metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
        references = metadata.get("ownerReferences")
        if references:
            metadata["ownerReferences"] = [
                {**each, "uid": self._uid(str(each.get("uid") or ""))} for each in references
            ]
        return msgspec.json.encode({**obj, "metadata": metadata})

    def _uid(self, recorded: str) -> str:
        """Return the UID in the replay of an object with a recorded UID."""
        found = self._recorded.incarnations.get(recorded)
        if found is None:
            return recorded
        key, incarnation = found
        known = self._history.incarnations.get(key, [])
        return known[incarnation] if incarnation < len(known) else recorded
