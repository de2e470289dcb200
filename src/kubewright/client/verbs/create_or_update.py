"""Create or update an object, and retry a function after conflicts."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kubewright.api.errors import AlreadyExists, Conflict
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.client.decoding import kind_of
from kubewright.client.patches import merge_patch, to_dict

if TYPE_CHECKING:
    from kubewright.client.client import Client

ResultT = TypeVar("ResultT")
UpsertT = TypeVar("UpsertT", bound=MetaObject | Unstructured)
OperationResult = Literal["created", "updated", "unchanged"]


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[ResultT]],
    *,
    attempts: int = 5,
    delay: float = 0.01,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: random.Random | None = None,
) -> ResultT:
    """Call `attempt`, which reads, changes and writes, again while it raises `Conflict`.

    The delay doubles after each attempt, with jitter. `AlreadyExists` is not retried.
    """
    if attempts < 1:
        raise ValueError(f"attempts must be at least 1, not {attempts}")
    random_ = (rng or random).random
    for number in range(attempts - 1):
        try:
            return await attempt()
        except AlreadyExists:
            raise
        except Conflict:
            await sleep(delay * 2.0**number * (1 + random_()))
    return await attempt()


async def create_or_update(
    client: Client, obj: UpsertT, mutate: Callable[[UpsertT], object]
) -> tuple[UpsertT, OperationResult]:
    """See `Client.create_or_update`."""

    async def attempt() -> tuple[UpsertT, OperationResult]:
        current = await _current(client, obj)
        if current is None:
            created = await _create(client, obj, mutate)
            if created is not None:
                return created, "created"
            current = await client.get(kind_of(obj), _name(obj), namespace=obj.metadata.namespace)
        before = to_dict(current.copy())
        await _mutate(mutate, current, obj)
        if to_dict(current) == before:
            return current, "unchanged"
        return await client.update(current), "updated"

    return await retry_on_conflict(attempt)


async def create_or_patch(
    client: Client, obj: UpsertT, mutate: Callable[[UpsertT], object]
) -> tuple[UpsertT, OperationResult]:
    """See `Client.create_or_patch`."""
    current: Any = await _current(client, obj)
    if current is None:
        current = await _create(client, obj, mutate)
        if current is not None:
            wanted = to_dict(obj).get("status")
            if wanted and wanted != to_dict(current).get("status"):
                current = await _patch_status(client, current, wanted)
            return current, "created"
        current = await client.get(kind_of(obj), _name(obj), namespace=obj.metadata.namespace)
    before = to_dict(current.copy())
    await _mutate(mutate, current, obj)
    after = to_dict(current.copy())
    if after == before:
        return current, "unchanged"
    status = after.pop("status", None)
    if after != {name: value for name, value in before.items() if name != "status"}:
        current = await client.patch(current)
    if status != before.get("status"):
        current = await _patch_status(client, current, status)
    return current, "updated"


async def _patch_status(client: Client, current: Any, status: Any) -> Any:
    return await client.patch(current, merge_patch({"status": status}), subresource="status")


async def _current(client: Client, obj: Any) -> Any:
    return await client.get_or_none(kind_of(obj), _name(obj), namespace=obj.metadata.namespace)


async def _create(client: Client, obj: Any, mutate: Callable[[Any], object]) -> Any:
    """Return the created object, or `None` if another client created it first."""
    new = obj.copy()
    await _mutate(mutate, new, obj)
    try:
        return await client.create(new)
    except AlreadyExists:
        return None


async def _mutate(mutate: Callable[[Any], object], current: Any, obj: Any) -> None:
    result = mutate(current)
    if inspect.isawaitable(result):
        await result
    expected = (obj.metadata.name, obj.metadata.namespace or current.metadata.namespace)
    if (current.metadata.name, current.metadata.namespace or expected[1]) != expected:
        raise ValueError("mutate must not change the name or namespace of the object")


def _name(obj: Any) -> str:
    name: str = obj.metadata.name or ""
    if not name:
        raise ValueError("the object has no metadata.name")
    return name
