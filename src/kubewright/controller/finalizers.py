"""Finalizers that run their cleanup: what has to happen outside before an object may disappear.

    finalizers = Finalizers(client, {"example.com/database": drop_database})

    async def reconcile(app: App) -> Result | None:
        if (result := await finalizers.handle(app)) is not None:
            return result          # it is being deleted, and that is taken care of
        ...                        # the finalizer is on the object: now make the database

A finalizer is put on before the reconciler goes on, so nothing is made that nobody would clean up, and never
on an object that is being deleted. It is taken off when its cleanup has ended without an error. Both are
patches that are refused if somebody else changed the object meanwhile, and then tried on what is there now:
the finalizers of others are never lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kubewright.api.errors import Conflict, NotFound
from kubewright.api.finalizers import has_finalizer, is_deleting
from kubewright.api.names import check_qualified_name
from kubewright.api.objects import base_of
from kubewright.callables import call
from kubewright.client.decoding import kind_of, update_in_place
from kubewright.client.patches import merge_patch

from .request import Result

Cleanup = Callable[[Any], Result | None] | Callable[[Any], Awaitable[Result | None]]
"""Cleans up after an object; plain or async, safe to call again. A `Result` that is returned says not yet."""

_TRIES: Final = 10


class Finalizers:
    """Finalizers by name, each with its cleanup. Permissions: get and patch of the kind."""

    def __init__(self, client: Any, cleanups: Mapping[str, Cleanup] | None = None) -> None:
        self._client = client
        self._cleanups: dict[str, Cleanup] = {}
        for name, cleanup in (cleanups or {}).items():
            self.register(name, cleanup)

    def register(self, name: str, cleanup: Cleanup) -> None:
        """Add a finalizer. Its name is that of a domain of yours and a word: `example.com/database`."""
        domain, slash, _ = name.partition("/")
        problems = check_qualified_name(name)
        if problems or not slash or not domain:
            why = f": {'; '.join(problems)}" if problems else ""
            raise ValueError(f"finalizer {name!r}: write domain/name, such as example.com/database{why}")
        if name in self._cleanups:
            raise ValueError(f"finalizer {name!r} is registered already")
        self._cleanups[name] = cleanup

    async def handle(self, obj: Any) -> Result | None:
        """Put the finalizers on, or clean up and take them off.

        `None`: the object lives, go on. A `Result`: it is being deleted, return this. If a cleanup fails the
        others still run and lose their finalizers; then its error is raised, so that it is tried again.
        """
        if not is_deleting(obj):
            missing = [name for name in self._cleanups if not has_finalizer(obj, name)]
            if missing and not await self._change(obj, add=missing):
                return Result()
            return None
        return await self._clean_up(obj)

    async def _clean_up(self, obj: Any) -> Result:
        cleaned: list[str] = []
        later: list[Result] = []
        errors: list[Exception] = []
        for name, cleanup in self._cleanups.items():
            if has_finalizer(obj, name):
                try:
                    answer: Result | None = await call(cleanup, obj)
                except Exception as error:
                    errors.append(error)
                    continue
                if answer is None:
                    cleaned.append(name)
                else:
                    later.append(answer)
        if cleaned:
            await self._change(obj, remove=cleaned)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"{len(errors)} cleanups have failed", errors)
        return min(later, key=lambda result: result.delay or float("inf"), default=Result())

    async def _change(self, obj: Any, add: list[str] | None = None, remove: list[str] | None = None) -> bool:
        """Change the finalizers on the server and in `obj`. Whether there is an object to go on with."""
        current = obj
        for attempt in range(_TRIES):
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
                if attempt == _TRIES - 1:
                    raise
            live = getattr(self._client, "live", self._client)
            try:
                current = await live.get(kind_of(obj), obj.metadata.name, namespace=obj.metadata.namespace)
            except NotFound:
                return False
        if current is not obj:
            update_in_place(obj, current, base_of(current) or b"")
        return True
