"""Adoption and release: which objects a controller manages.

A controller manages the objects that refer to it as their controller. `ControllerRefs.claim` adopts orphans
that match the selector, and releases objects that no longer match it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import Invalid, NotFound
from kubewright.api.meta import MetaObject
from kubewright.api.owners import owner_reference
from kubewright.api.selectors.label_selectors import Selector
from kubewright.cache import CachedClient
from kubewright.client.kind_types import metadata_of
from kubewright.client.patches import strategic_merge_patch


class HasMetadata(Protocol):
    """An object or a summary of it."""

    @property
    def metadata(self) -> Any:
        """Its metadata."""


ObjectT = TypeVar("ObjectT", bound=HasMetadata)


class AdoptionError(Exception):
    """Objects could not be adopted or released; the request is retried."""


def controller_reference(owner: MetaObject) -> dict[str, Any]:
    """Return the owner reference of a controller, as a dict."""
    reference: dict[str, Any] = to_plain(owner_reference(owner, controller=True, block_owner_deletion=True))
    return reference


class ControllerRefs:
    """Claims objects of one kind for one owner."""

    def __init__(
        self,
        client: CachedClient,
        owner: MetaObject,
        kind: type[MetaObject],
        selector: Selector,
        *,
        finalizers: Sequence[str] = (),
    ) -> None:
        """`finalizers` are added with an adoption and removed with a release."""
        self._client = client
        self._owner = owner
        self._kind = kind
        self._selector = selector
        self._finalizers = list(finalizers)
        self._can_adopt: bool | None = None

    async def claim(
        self, objects: Iterable[ObjectT], *, accepts: Callable[[ObjectT], bool] | None = None
    ) -> list[ObjectT]:
        """Return the managed objects. An adopted object is returned as it was before its adoption.

        `accepts` is a condition in addition to the selector. Raises `AdoptionError` after all were tried.
        """
        claimed: list[ObjectT] = []
        errors: list[str] = []
        for obj in objects:
            try:
                if await self._claim(obj, accepts):
                    claimed.append(obj)
            except Exception as error:
                errors.append(str(error))
        if errors:
            raise AdoptionError("; ".join(errors))
        return claimed

    async def _claim(self, obj: ObjectT, accepts: Callable[[ObjectT], bool] | None) -> bool:
        metadata, owner = obj.metadata, self._owner
        controller = next((each for each in metadata.owner_references or () if each.controller), None)
        if controller is not None and controller.uid != owner.metadata.uid:
            return False
        matches = self._selector.matches(metadata.labels) and (accepts is None or accepts(obj))
        if controller is not None:
            if matches:
                return True
            if owner.metadata.deletion_timestamp is None:
                await self._release(metadata)
            return False
        if owner.metadata.deletion_timestamp is not None or not matches:
            return False
        if metadata.deletion_timestamp is not None:
            return False
        return await self._adopt(metadata)

    async def _adopt(self, metadata: Any) -> bool:
        owner = self._owner
        if self._can_adopt is None:
            self._can_adopt = await self._recheck()
        if not self._can_adopt:
            raise AdoptionError(
                f"can't adopt {self._kind.__name__} {metadata.namespace}/{metadata.name} ({metadata.uid}): "
                f"{owner.metadata.namespace}/{owner.metadata.name} has just been deleted"
            )
        change: dict[str, Any] = {"uid": metadata.uid, "ownerReferences": [controller_reference(owner)]}
        if self._finalizers:
            change["finalizers"] = self._finalizers
        try:
            await self._patch(metadata, change)
        except NotFound:
            return False
        return True

    async def _recheck(self) -> bool:
        """Read the owner from the server: it may have been deleted, and another created with its name."""
        meta = self._owner.metadata
        kind = metadata_of(type(self._owner))
        fresh = await self._client.uncached.get(kind, meta.name or "", namespace=meta.namespace)
        return fresh.metadata.uid == meta.uid and fresh.metadata.deletion_timestamp is None

    async def _release(self, metadata: Any) -> None:
        change: dict[str, Any] = {
            "uid": metadata.uid,
            "ownerReferences": [{"$patch": "delete", "uid": self._owner.metadata.uid}],
        }
        if self._finalizers:
            change["$deleteFromPrimitiveList/finalizers"] = self._finalizers
        try:
            await self._patch(metadata, change)
        except (NotFound, Invalid):
            # Invalid: the object has another uid, that is, it was deleted and created again.
            return

    async def _patch(self, metadata: Any, change: dict[str, Any]) -> None:
        await self._client.patch(
            self._kind,
            metadata.name,
            strategic_merge_patch({"metadata": change}),
            namespace=metadata.namespace,
        )
