"""`EventLoopThread`: an event loop in a background thread, called from other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class EventLoopThread:
    """An event loop that runs in its own daemon thread, or in a thread of the caller."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop`: a loop that already runs in another thread, which `stop` does not stop."""
        self._thread: threading.Thread | None = None
        if loop is not None:
            self.loop = loop
            return
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubewright-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine in the loop and return its result; an interrupt cancels it."""
        if asyncio._get_running_loop() is self.loop:
            coroutine.close()
            raise RuntimeError("a SyncClient cannot be used inside its own event loop")
        # A loop that runs one thread at a time does both parts itself.
        runs = getattr(self.loop, "run_from_thread", None)
        if runs is not None:
            result: ResultT = runs(coroutine)
            return result
        # A loop with a simulated clock waits for threads, unless they wait for the loop.
        waits = getattr(self.loop, "run_for_thread", None)
        awaited: Coroutine[Any, Any, ResultT] = coroutine if waits is None else waits(coroutine)
        future = asyncio.run_coroutine_threadsafe(awaited, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncIterable[ResultT]) -> Iterator[ResultT]:
        """Iterate an async iterable; it is closed when the iterator is."""
        items: AsyncIterator[ResultT] = aiter(source)

        async def next_item() -> tuple[bool, Any]:
            try:
                return True, await anext(items)
            except StopAsyncIteration:
                return False, None

        async def close() -> None:
            aclose = getattr(items, "aclose", None)
            if aclose is not None:
                await aclose()

        try:
            while True:
                found, item = self.run(next_item())
                if not found:
                    return
                yield item
        finally:
            self.run(close())

    def stop(self) -> None:
        """Stop the loop and wait for the thread to end."""
        if self._thread is not None and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
