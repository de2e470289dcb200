"""The program that the cache benchmark measures: follow a kind, hold it, and say what is seen.

One line of JSON per event on stdout: `synced` with the number of objects, then `seen` for each change of
`spec.seq`. KUBECONFIG says where the server is.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time


def emit(**event: object) -> None:
    """One line for the one who measures; times are of the monotonic clock."""
    event["t"] = time.monotonic()
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


async def main() -> None:
    """Run until SIGTERM."""
    gc.disable()
    from kubewright.api.gvk import GroupVersionKind
    from kubewright.cache.cache import Cache
    from kubewright.cache.indexes import by_field, by_label
    from kubewright.cache.store import Change
    from kubewright.client.client import Client

    started = time.monotonic()
    widget = GroupVersionKind("bench.example.dev", "v1", "Widget")
    sequence = by_field("spec.seq").indexer
    async with Client.connect(metrics=False) as client, Cache(client) as cache:
        if os.environ.get("INDEXES") == "1":
            cache.add_index(widget, by_label("app"), by_field("spec.image"))
        informer = await cache.informer(widget)
        await cache.wait_for_sync()
        gc.enable()
        gc.freeze()
        usage = cache.usage()[0]
        emit(event="synced", sync_s=time.monotonic() - started, count=usage.objects, bytes=usage.bytes)

        def seen(change: Change) -> None:
            if change.initial or change.new is None:
                return
            (value,) = sequence(change.new)
            if value and (change.old is None or sequence(change.old) != (value,)):
                emit(event="seen", seq=int(value))

        informer.add_handler(seen)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
