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
from kubewright.client.patches import merge_patch, to_dict

from .base import kind_of

if TYPE_CHECKING:
    from kubewright.client.client import Client

ResultT = TypeVar("ResultT")
UpsertT = TypeVar("UpsertT", bound=MetaObject | Unstructured)
OperationResult = Literal["created", "updated", "unchanged"]
MutateFunction = Callable[[Any], Any]
"""Changes the object it is given in location, but not its name; may be a coroutine function."""


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


async def create_or_update(
    client: Client, obj: UpsertT, mutate: MutateFunction
) -> tuple[UpsertT, OperationResult]:
    """See `Client.create_or_update`."""

    async def attempt() -> tuple[UpsertT, OperationResult]:
        current = await _current(client, obj)
        if current is None:
            made = await _create(client, obj, mutate)
            if made is not None:
                return made, "created"
            current = await client.get(kind_of(obj), _name(obj), obj.metadata.namespace)
        before = to_dict(current.copy())
        await _mutate(mutate, current, obj)
        if to_dict(current) == before:
            return current, "unchanged"
        return await client.update(current), "updated"

    return await retry_on_conflict(attempt)


async def create_or_patch(
    client: Client, obj: UpsertT, mutate: MutateFunction
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
        current = await client.get(kind_of(obj), _name(obj), obj.metadata.namespace)
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
    try:
        return await client.get(kind_of(obj), _name(obj), obj.metadata.namespace)
    except NotFound:
        return None


async def _create(client: Client, obj: Any, mutate: MutateFunction) -> Any:
    """The object made, or `None` if somebody else was faster."""
    new = obj.copy()
    await _mutate(mutate, new, obj)
    try:
        return await client.create(new)
    except AlreadyExists:
        return None


async def _mutate(mutate: MutateFunction, current: Any, obj: Any) -> None:
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


__all__ = ["OperationResult", "create_or_patch", "create_or_update", "retry_on_conflict"]
