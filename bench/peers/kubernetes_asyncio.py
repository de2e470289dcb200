"""kubernetes_asyncio: a dict filled by one list and then a watch, as its users write it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

# The script's own folder would hide the library of the same name.
sys.path.pop(0)

from kubernetes_asyncio import client, config, watch

WIDGETS = ("bench.example.dev", "v1", "widgets")


async def main() -> None:
    """Run until it is killed."""
    await config.load_kube_config()
    async with client.ApiClient() as api:
        objects = client.CustomObjectsApi(api)
        listed = await objects.list_cluster_custom_object(*WIDGETS)
        version = listed["metadata"]["resourceVersion"]
        held = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in listed["items"]}
        del listed
        print("synced", len(held), time.monotonic(), flush=True)
        stream = watch.Watch().stream(objects.list_cluster_custom_object, *WIDGETS, resource_version=version)
        async for event in stream:
            each = event["object"]
            key = each["metadata"]["namespace"], each["metadata"]["name"]
            before, held[key] = held.get(key), each
            sequence = each["spec"].get("seq")
            if sequence and (before is None or before["spec"].get("seq") != sequence):
                print("seen", sequence, time.monotonic(), flush=True)


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
asyncio.run(main())
