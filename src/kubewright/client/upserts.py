"""Making things so, whether they exist or not; and trying again after a conflict."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kubewright.api.errors import AlreadyExists, Conflict, NotFound
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

from .core import kind_of
from .patches import merge, plain

if TYPE_CHECKING:
    from .client import Client

ResultT = TypeVar("ResultT")
UpsertT = TypeVar("UpsertT", bound=MetaObject | Unstructured)
Outcome = Literal["created", "updated", "unchanged"]
Mutate = Callable[[Any], Any]
"""Changes the object it is given in place, but not its name; may be a coroutine function."""


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[ResultT]],
    *,
    tries: int = 5,
    delay: float = 0.01,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: random.Random | None = None,
) -> ResultT:
    """Call `attempt`, which reads, changes and writes, again while others get in between."""
    random_ = (rng or random).random
    for number in range(tries):
        try:
            return await attempt()
        except AlreadyExists:
            raise
        except Conflict:
            if number == tries - 1:
                raise
            await sleep(delay * 2.0**number * (1 + random_()))
    raise AssertionError("tries must be at least 1")


async def create_or_update(client: Client, obj: UpsertT, mutate: Mutate) -> tuple[UpsertT, Outcome]:
    """See `Client.create_or_update`."""

    async def attempt() -> tuple[UpsertT, Outcome]:
        current = await _current(client, obj)
        if current is None:
            made = await _create(client, obj, mutate)
            if made is not None:
                return made, "created"
            current = await client.get(kind_of(obj), _name(obj), obj.metadata.namespace)
        before = plain(current.copy())
        await _mutate(mutate, current, obj)
        if plain(current) == before:
            return current, "unchanged"
        return await client.update(current), "updated"

    return await retry_on_conflict(attempt)


async def create_or_patch(client: Client, obj: UpsertT, mutate: Mutate) -> tuple[UpsertT, Outcome]:
    """See `Client.create_or_patch`."""
    current: Any = await _current(client, obj)
    if current is None:
        current = await _create(client, obj, mutate)
        if current is not None:
            wanted = plain(obj).get("status")
            if wanted and wanted != plain(current).get("status"):
                current = await _patch_status(client, current, wanted)
            return current, "created"
        current = await client.get(kind_of(obj), _name(obj), obj.metadata.namespace)
    before = plain(current.copy())
    await _mutate(mutate, current, obj)
    after = plain(current.copy())
    if after == before:
        return current, "unchanged"
    status = after.pop("status", None)
    if after != {name: value for name, value in before.items() if name != "status"}:
        current = await client.patch(current)
    if status != before.get("status"):
        current = await _patch_status(client, current, status)
    return current, "updated"


async def _patch_status(client: Client, current: Any, status: Any) -> Any:
    return await client.patch(current, merge({"status": status}), subresource="status")


async def _current(client: Client, obj: Any) -> Any:
    try:
        return await client.get(kind_of(obj), _name(obj), obj.metadata.namespace)
    except NotFound:
        return None


async def _create(client: Client, obj: Any, mutate: Mutate) -> Any:
    """The object made, or `None` if somebody else was faster."""
    new = obj.copy()
    await _mutate(mutate, new, obj)
    try:
        return await client.create(new)
    except AlreadyExists:
        return None


async def _mutate(mutate: Mutate, current: Any, obj: Any) -> None:
    result = mutate(current)
    if inspect.isawaitable(result):
        await result
    asked = (obj.metadata.name, obj.metadata.namespace or current.metadata.namespace)
    if (current.metadata.name, current.metadata.namespace or asked[1]) != asked:
        raise ValueError("the mutation changed the name or namespace of the object")


def _name(obj: Any) -> str:
    name: str = obj.metadata.name or ""
    if not name:
        raise ValueError("the object needs a name")
    return name


__all__ = ["Outcome", "create_or_patch", "create_or_update", "retry_on_conflict"]
