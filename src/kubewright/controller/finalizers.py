"""Finalizers with cleanup functions: external cleanup before an object is deleted.

    finalizers = Finalizers(client, {"example.com/database": drop_database})

    async def reconcile(app: App) -> Result | None:
        if (result := await finalizers.handle(app)) is not None:
            return result          # the object is being deleted
        ...                        # the finalizer is stored: create the database

A finalizer is added before the reconciler continues, so nothing is created without cleanup, and never to an
object that is being deleted. It is removed when its cleanup has succeeded. Both are patches with the
resourceVersion as a precondition; after a conflict they are retried on the current version, so finalizers of
other controllers are never lost.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kubewright.api.errors import Conflict, NotFound
from kubewright.api.finalizers import has_finalizer, is_deleting
from kubewright.api.meta import MetaObject
from kubewright.api.objects import base_of
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.names import check_qualified_name
from kubewright.callables import call
from kubewright.client import Client
from kubewright.client.decoding import kind_of, update_in_place
from kubewright.client.patches import merge_patch

from .request import Result

logger = logging.getLogger(__name__)

Cleanup = Callable[[Any], Result | None] | Callable[[Any], Awaitable[Result | None]]
"""Cleanup function of an object, plain or async, idempotent. Returning a `Result` means: not finished yet."""

_MAX_ATTEMPTS: Final = 10
_GARBAGE_COLLECTION: Final = ("orphan", "foregroundDeletion", "kubernetes")


def check_finalizer_name(name: str) -> None:
    """Raise a `ValueError` for a name that API servers reject, or that belongs to the garbage collector."""
    errors = check_qualified_name(name)
    if name in _GARBAGE_COLLECTION:
        errors = ["it is a finalizer of the API server"]
    if errors:
        raise ValueError(
            f"finalizer {name!r}: {'; '.join(errors)}; expected domain/name, such as example.com/database"
        )


class Finalizers:
    """Finalizers by name, with their cleanup functions. Permissions: get and patch of the kind."""

    def __init__(self, client: Client, cleanups: Mapping[str, Cleanup] | None = None) -> None:
        self._client = client
        self._cleanups: dict[str, Cleanup] = {}
        for name, cleanup in (cleanups or {}).items():
            self.register(name, cleanup)

    def register(self, name: str, cleanup: Cleanup) -> None:
        """Add a finalizer. Its name should have a domain and a suffix: `example.com/database`.

        API servers accept a name without a domain for custom resources, with a warning, and reject it for
        most built-in kinds.
        """
        check_finalizer_name(name)
        if "/" not in name:
            logger.warning(
                "finalizer name has no domain, prefer one such as example.com/database; "
                "other controllers can have the same name, and most built-in kinds reject it",
                extra={"finalizer": name},
            )
        if name in self._cleanups:
            raise ValueError(f"finalizer {name!r} is already registered")
        self._cleanups[name] = cleanup

    async def handle(self, obj: MetaObject | Unstructured) -> Result | None:
        """Add missing finalizers, or run the cleanups of a deleted object and remove its finalizers.

        Returns `None` if the object is not being deleted, else a `Result` for the reconciler to return. If a
        cleanup fails, the others still run and their finalizers are removed; then the error is raised, so
        that the reconcile is retried.
        """
        if not is_deleting(obj):
            missing = [name for name in self._cleanups if not has_finalizer(obj, name)]
            if missing and not await self._change(obj, add=missing):
                return Result()
            return None
        return await self._clean_up(obj)

    async def _clean_up(self, obj: Any) -> Result:
        cleaned: list[str] = []
        unfinished: list[Result] = []
        errors: list[Exception] = []
        for name, cleanup in self._cleanups.items():
            if has_finalizer(obj, name):
                try:
                    result: Result | None = await call(cleanup, obj)
                except Exception as error:
                    errors.append(error)
                    continue
                if result is None:
                    cleaned.append(name)
                else:
                    unfinished.append(result)
        if cleaned:
            await self._change(obj, remove=cleaned)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"{len(errors)} cleanups failed", errors)
        return min(unfinished, key=lambda result: result.delay or float("inf"), default=Result())

    async def _change(self, obj: Any, add: list[str] | None = None, remove: list[str] | None = None) -> bool:
        """Change the finalizers on the server and in `obj`; return whether the object still exists."""
        current = obj
        for attempt in range(_MAX_ATTEMPTS):
            metadata = current.metadata
            if metadata.uid != obj.metadata.uid or (add and is_deleting(current)):
                return False
            before = list(metadata.finalizers or ())
            after = [name for name in before if name not in (remove or ())]
            after += [name for name in add or () if name not in before]
            if after == before:
                break
            lock = {"resourceVersion": metadata.resource_version, "uid": metadata.uid, "finalizers": after}
            try:
                await self._client.patch(current, merge_patch({"metadata": lock}))
                break
            except NotFound:
                return False
            except Conflict:
                if attempt == _MAX_ATTEMPTS - 1:
                    raise
            uncached = getattr(self._client, "uncached", self._client)
            try:
                current = await uncached.get(
                    kind_of(obj), obj.metadata.name, namespace=obj.metadata.namespace
                )
            except NotFound:
                return False
        if current is not obj:
            update_in_place(obj, current, base_of(current) or b"")
        return True
