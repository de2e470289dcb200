"""lightkube: a dict filled by one list and then a watch, as its users write it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

# The script's own folder would hide the library of the same name.
sys.path.pop(0)

from lightkube import ALL_NS, AsyncClient
from lightkube.generic_resource import create_namespaced_resource

Widget = create_namespaced_resource("bench.example.dev", "v1", "Widget", "widgets")


async def main() -> None:
    """Run until it is killed."""
    client = AsyncClient()
    listed = client.list(Widget, namespace=ALL_NS)
    held = {}
    async for each in listed:
        held[each.metadata.namespace, each.metadata.name] = each
    print("synced", len(held), time.monotonic(), flush=True)
    async for _, each in client.watch(Widget, namespace=ALL_NS, resource_version=listed.resourceVersion):
        key = each.metadata.namespace, each.metadata.name
        before, held[key] = held.get(key), each
        sequence = each.spec.get("seq")
        if sequence and (before is None or before.spec.get("seq") != sequence):
            print("seen", sequence, time.monotonic(), flush=True)


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
asyncio.run(main())
