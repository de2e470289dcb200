"""kubernetes_asyncio: the loop of `bench/controller.py` by hand: a dict, a watch, ten workers."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import Any

# The script's own folder would hide the library of the same name.
sys.path.pop(0)

from kubernetes_asyncio import client, config, watch

WIDGETS = ("bench.example.dev", "v1")
Key = tuple[str, str]


def say(event: str, **more: Any) -> None:
    """Print one line for the benchmark process."""
    print(json.dumps({"event": event, "t": time.monotonic(), **more}), flush=True)


def wanted(widget: dict[str, Any]) -> bool:
    """Whether the object needs a reconcile."""
    metadata, status = widget["metadata"], widget.get("status") or {}
    done = status.get("phase") == "Ready" and status.get("observedGeneration") == metadata["generation"]
    return (metadata.get("labels") or {}).get("loop") == "1" and not done


class Loop:
    """The state and the keys to work on; a key is with one worker at a time."""

    def __init__(self, api: client.ApiClient) -> None:
        self.widgets: dict[Key, dict[str, Any]] = {}
        self.queue: asyncio.Queue[Key] = asyncio.Queue()
        self.queued: set[Key] = set()
        self.active: set[Key] = set()
        self.again: set[Key] = set()
        self.objects, self.core = client.CustomObjectsApi(api), client.CoreV1Api(api)

    def take(self, widget: dict[str, Any]) -> None:
        """Remember an object and queue its key if something is to be done."""
        key = widget["metadata"]["namespace"], widget["metadata"]["name"]
        self.widgets[key] = widget
        if not wanted(widget) or key in self.queued:
            return
        if key in self.active:
            self.again.add(key)
            return
        self.queued.add(key)
        self.queue.put_nowait(key)

    async def work(self) -> None:
        """One worker."""
        while True:
            key = await self.queue.get()
            self.queued.discard(key)
            self.active.add(key)
            try:
                widget = self.widgets[key]
                if wanted(widget):
                    await self.reconcile(*key, widget)
            finally:
                self.active.discard(key)
                if key in self.again:
                    self.again.discard(key)
                    self.take(self.widgets[key])

    async def reconcile(self, namespace: str, name: str, widget: dict[str, Any]) -> None:
        """Make the ConfigMap and set the status."""
        owner = {
            "apiVersion": "bench.example.dev/v1",
            "kind": "Widget",
            "name": name,
            "uid": widget["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        config_map = {
            "metadata": {"name": f"{name}-cm", "namespace": namespace, "ownerReferences": [owner]},
            "data": {"image": widget["spec"]["image"]},
        }
        try:
            await self.core.create_namespaced_config_map(namespace, config_map)
        except client.ApiException as error:
            if error.status != 409:
                raise
        status = {
            "phase": "Ready",
            "observedGeneration": widget["metadata"]["generation"],
            "configMap": f"{name}-cm",
        }
        body = {**widget, "status": status}
        await self.objects.replace_namespaced_custom_object_status(*WIDGETS, namespace, "widgets", name, body)


async def main() -> None:
    """Run until it is killed."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit)
    await config.load_kube_config()
    async with client.ApiClient() as api:
        loop = Loop(api)
        listed = await loop.objects.list_cluster_custom_object(*WIDGETS, "widgets")
        version = listed["metadata"]["resourceVersion"]
        for widget in listed["items"]:
            loop.take(widget)
        del listed
        say("synced", sync_s=0.0, count=len(loop.widgets))
        workers = [asyncio.create_task(loop.work()) for _ in range(10)]
        stream = watch.Watch().stream(
            loop.objects.list_cluster_custom_object, *WIDGETS, "widgets", resource_version=version
        )
        async for event in stream:
            if event["type"] in ("ADDED", "MODIFIED"):
                loop.take(event["object"])
        await asyncio.gather(*workers)


if __name__ == "__main__":
    asyncio.run(main())
