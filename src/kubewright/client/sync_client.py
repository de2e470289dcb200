"""The same client for scripts without an event loop.

    with SyncClient.connect() as client:
        web = client.get(Deployment, "web")
        for pod in client.list(Pod, labels="app=web"): ...
        for event in client.watch(Pod): ...
        with client.port_forward("web-0", 8080) as forward: ...

Nothing is written twice: each verb is derived from that of `Client`, types included; what is not named here
is found there. `SyncClient` runs a `Client` in one background thread and waits for what its verbs give. A
coroutine becomes its result, an async iterator an iterator, an async context manager a context manager, and a
list or log, which can be awaited or iterated, stays both: iterate it, or call `.whole()`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from .client import Client
from .kind_types import ObjectT, WatchEvent
from .listwatch.pager import ListPager, ObjectList
from .listwatch.watch import Watch
from .streams.exec import ExecCommand, ExecResult, PodLog

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")
WholeT = TypeVar("WholeT")


class EventLoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubewright-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine there, and wait here; interrupting the wait cancels it."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a SyncClient cannot be used inside of its own loop")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()


class Waiting(Generic[ItemT, WholeT]):
    """Stands for something asynchronous: what it gives is given when it is there."""

    def __init__(self, inner: Any, background: EventLoopThread) -> None:
        self._inner = inner
        self._background = background

    def whole(self) -> WholeT:
        """All of it: the list, the text, the result."""

        async def wait() -> Any:
            return await self._inner

        whole: WholeT = self._background.wait(wait())
        return whole

    def __iter__(self) -> Iterator[ItemT]:
        events: AsyncIterator[Any] = aiter(self._inner)

        async def following() -> tuple[bool, Any]:
            try:
                return True, await anext(events)
            except StopAsyncIteration:
                return False, None

        async def close() -> None:
            end = getattr(events, "aclose", None)
            if end is not None:
                await end()

        try:
            while True:
                more, value = self._background.wait(following())
                if not more:
                    return
                yield value
        finally:
            self._background.wait(close())

    def __enter__(self) -> Any:
        async def enter() -> Any:
            return await self._inner.__aenter__()

        return present(self._background.wait(enter()), self._background)

    def __exit__(self, *exc: Any) -> None:
        async def leave() -> None:
            await self._inner.__aexit__(*exc)

        self._background.wait(leave())

    def __getattr__(self, name: str) -> Any:
        return present(getattr(self._inner, name), self._background)


def present(value: Any, background: EventLoopThread) -> Any:
    """What the synchronous side sees of a value."""
    if isinstance(value, Client):
        return SyncClient(value, background)
    if inspect.iscoroutine(value):
        return present(background.wait(value), background)
    if callable(value) and not isinstance(value, type):
        return _called(value, background)
    asynchronous = ("__await__", "__aiter__", "__aenter__")
    return Waiting(value, background) if _any(value, asynchronous) or _has_coroutines(value) else value


def _any(value: Any, names: tuple[str, ...]) -> bool:
    return any(hasattr(type(value), name) for name in names)


def _has_coroutines(value: Any) -> bool:
    """Whether this is a part of the client with verbs of its own, such as a subresource."""
    return type(value).__module__.startswith("kubewright.client.") and any(
        inspect.iscoroutinefunction(each) for each in vars(type(value)).values()
    )


def _called(function: Callable[..., Any], background: EventLoopThread) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return present(function(*args, **kwargs), background)

    return call


def _derived(verb: Any) -> Any:
    @functools.wraps(verb)
    def call(self: SyncClient, *args: Any, **kwargs: Any) -> Any:
        return present(verb(self._client, *args, **kwargs), self._background)

    return call


def _waits(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[SyncClient, P], ResultT]:
    return cast("Callable[Concatenate[SyncClient, P], ResultT]", _derived(verb))


def _lists(
    verb: Callable[Concatenate[Any, P], ListPager[ObjectT]],
) -> Callable[Concatenate[SyncClient, P], Waiting[ObjectT, ObjectList[ObjectT]]]:
    return cast("Callable[Concatenate[SyncClient, P], Waiting[ObjectT, ObjectList[ObjectT]]]", _derived(verb))


def _watches(
    verb: Callable[Concatenate[Any, P], Watch[ObjectT]],
) -> Callable[Concatenate[SyncClient, P], Waiting[WatchEvent[ObjectT], None]]:
    return cast("Callable[Concatenate[SyncClient, P], Waiting[WatchEvent[ObjectT], None]]", _derived(verb))


def _logs(
    verb: Callable[Concatenate[Any, P], PodLog],
) -> Callable[Concatenate[SyncClient, P], Waiting[str, str]]:
    return cast("Callable[Concatenate[SyncClient, P], Waiting[str, str]]", _derived(verb))


def _runs(
    verb: Callable[Concatenate[Any, P], ExecCommand],
) -> Callable[Concatenate[SyncClient, P], Waiting[tuple[str, bytes], ExecResult]]:
    return cast(
        "Callable[Concatenate[SyncClient, P], Waiting[tuple[str, bytes], ExecResult]]", _derived(verb)
    )


def _decorates(
    verb: Callable[Concatenate[Any, P], Client],
) -> Callable[Concatenate[SyncClient, P], SyncClient]:
    return cast("Callable[Concatenate[SyncClient, P], SyncClient]", _derived(verb))


class SyncClient:
    """A `Client` whose verbs wait. Close it, or use it in `with`."""

    def __init__(self, client: Client, background: EventLoopThread | None = None) -> None:
        self._client = client
        self._background = background or EventLoopThread()
        self._owner = background is None

    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """As `Client.connect`."""
        return cls(Client.connect(*args, **kwargs))

    get = _waits(Client.get)
    list = _lists(Client.list)
    watch = _watches(Client.watch)
    wait = _waits(Client.wait)
    create = _waits(Client.create)
    update = _waits(Client.update)
    update_status = _waits(Client.update_status)
    patch = _waits(Client.patch)
    apply = _waits(Client.apply)
    delete = _waits(Client.delete)
    delete_all = _waits(Client.delete_all)
    scale = _waits(Client.scale)
    create_or_update = _waits(Client.create_or_update)
    create_or_patch = _waits(Client.create_or_patch)
    version = _waits(Client.version)
    log = _logs(Client.log)
    exec = _runs(Client.exec)
    attach = _runs(Client.attach)
    copy_to = _waits(Client.copy_to)
    copy_from = _waits(Client.copy_from)
    in_namespace = _decorates(Client.in_namespace)
    with_default_namespace = _decorates(Client.with_default_namespace)
    with_dry_run = _decorates(Client.with_dry_run)
    with_field_owner = _decorates(Client.with_field_owner)
    with_field_validation = _decorates(Client.with_field_validation)
    with_interceptor = _decorates(Client.with_interceptor)
    with_timeout = _decorates(Client.with_timeout)
    with_impersonation = _decorates(Client.with_impersonation)

    def __getattr__(self, name: str) -> Any:
        return present(getattr(self._client, name), self._background)

    def close(self) -> None:
        """Close the connections and end the thread."""
        self._background.wait(self._client.aclose())
        if self._owner:
            self._background.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


__all__ = ["SyncClient"]
