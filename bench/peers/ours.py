"""Kubewright: cache a kind and report its changes. See `bench/cache.py` for the protocol."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time


def say(*words: object) -> None:
    """Print one line for the benchmark process."""
    print(*words, time.monotonic(), flush=True)


async def main() -> None:
    """Run until SIGTERM."""
    gc.disable()
    from kubewright.api.gvk import GroupVersionKind
    from kubewright.cache import Cache, ObjectChange, by_field, by_label
    from kubewright.client import Client

    widget = GroupVersionKind("bench.example.dev", "v1", "Widget")
    sequence = by_field("spec.seq").indexer
    namespaces = [os.environ["NAMESPACE"]] if "NAMESPACE" in os.environ else None
    async with Client.connect(metrics=False) as client, Cache(client, namespaces=namespaces) as cache:
        if os.environ.get("INDEXES") == "1":
            cache.add_index(widget, by_label("app"), by_field("spec.image"))
        informer = await cache.informer(widget)
        await cache.wait_for_sync()
        gc.freeze()
        gc.enable()
        say("synced", len(informer.store))

        def seen(change: ObjectChange) -> None:
            if change.new is not None and not change.initial:
                for value in sequence(change.new):
                    if value and (change.old is None or sequence(change.old) != (value,)):
                        say("seen", value)

        informer.add_handler(seen)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
