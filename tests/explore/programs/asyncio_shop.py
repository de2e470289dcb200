"""An operator written with kubernetes_asyncio: each Shop gets a ConfigMap with its size. `BUG` plants a bug.

- `conflict-ignored`: a conflict is taken for a change that another reconcile will notice
- `stale-list`: ConfigMaps are counted in a list that may be stale, and their names are generated
- `cached-children`: ConfigMaps are counted in a cache, and their names are generated
- `missed-delete`: ConfigMaps are deleted when the DELETED event of their Shop arrives, and only then
- `no-relist`: after an expired watch, the objects are listed only for the new resource version
- `watch-ends`: a broken watch is not started again
- `unordered`: each event is handled by a task of its own, with the Shop of the event
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import lean_kubernetes  # noqa: F401
from kubernetes_asyncio import client, config, watch

BUG = os.environ.get("BUG", "")
GROUP = ("shops.example.com", "v1", "default", "shops")
RETRY_SECONDS = 0.2
ERRORS = (client.ApiException, aiohttp.ClientError, TimeoutError, ConnectionError)

Listing = Callable[..., Awaitable[Any]]


class Informer:
    """The objects of a resource by name, and a function that is called with the name of a changed one."""

    def __init__(
        self, api: client.ApiClient, list_objects: Listing, on_change: Callable[[str, Any], None]
    ) -> None:
        self.objects: dict[str, Any] = {}
        self._api = api
        self._list = list_objects
        self._on_change = on_change
        self.has_synced = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                await self._list_and_watch()
            except ERRORS as error:
                print("list or watch failed:", error, flush=True)
                if BUG == "watch-ends":
                    return
            await asyncio.sleep(RETRY_SECONDS)

    async def _list_and_watch(self) -> None:
        listed = self._api.sanitize_for_serialization(await self._list())
        found = {each["metadata"]["name"]: each for each in listed["items"]}
        if not self.has_synced.is_set() or BUG != "no-relist":
            deleted = [] if BUG == "missed-delete" else [name for name in self.objects if name not in found]
            for name in deleted:
                self._set(name, None)
            for name, each in found.items():
                self._set(name, each)
        self.has_synced.set()
        version = listed["metadata"]["resourceVersion"]
        async with watch.Watch().stream(self._list, resource_version=version) as stream:
            async for event in stream:
                each = event["raw_object"]
                self._set(each["metadata"]["name"], None if event["type"] == "DELETED" else each)

    def _set(self, name: str, value: Any) -> None:
        if value is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = value
        self._on_change(name, value)


class ShopOperator:
    def __init__(self, api: client.ApiClient) -> None:
        self.api = api
        self.core = client.CoreV1Api(api)
        self.custom = client.CustomObjectsApi(api)
        self.shops = Informer(api, self.list_shops, self.shop_changed)
        self.children = Informer(api, self.list_children, lambda name, value: None)
        self.queue: asyncio.Queue[str] = asyncio.Queue()
        self.tasks: set[asyncio.Task[None]] = set()

    def list_shops(self, **options: Any) -> Awaitable[Any]:
        return self.custom.list_namespaced_custom_object(*GROUP, **options)  # type: ignore[no-any-return]

    def list_children(self, **options: Any) -> Awaitable[Any]:
        return self.core.list_namespaced_config_map(  # type: ignore[no-any-return]
            "default", label_selector="shop", **options
        )

    async def run(self) -> None:
        running = [asyncio.create_task(self.shops.run())]
        if BUG == "cached-children":
            running.append(asyncio.create_task(self.children.run()))
        if BUG != "missed-delete":
            for each in self.api.sanitize_for_serialization(await self.list_children())["items"]:
                self.queue.put_nowait(each["metadata"]["labels"]["shop"])
        await self.shops.has_synced.wait()
        while True:
            name = await self.queue.get()
            try:
                await self.reconcile(name, self.shops.objects.get(name))
            except ERRORS as error:
                print("reconcile failed:", error, flush=True)
                await asyncio.sleep(RETRY_SECONDS)
                self.queue.put_nowait(name)

    def shop_changed(self, name: str, shop: Any) -> None:
        if BUG == "unordered":
            task = asyncio.create_task(self.reconcile(name, shop))
            self.tasks.add(task)
        else:
            self.queue.put_nowait(name)

    async def children_of(self, name: str) -> list[Any]:
        if BUG == "cached-children":
            return [
                each for each in self.children.objects.values() if each["metadata"]["labels"]["shop"] == name
            ]
        options = {"resource_version": "0"} if BUG == "stale-list" else {}
        found = await self.core.list_namespaced_config_map(
            "default", label_selector=f"shop={name}", **options
        )
        return self.api.sanitize_for_serialization(found)["items"]  # type: ignore[no-any-return]

    async def reconcile(self, name: str, shop: Any) -> None:
        if shop is None:
            for each in await self.children_of(name):
                await self.delete(each["metadata"]["name"])
            return
        size = str(shop["spec"]["size"])
        if shop.get("status", {}).get("size") == size:
            return
        if BUG == "unordered":
            await self.set_status(name, size)
        children = await self.children_of(name)
        if not children:
            await self.create(name, size)
        for each in children:
            if each["data"]["size"] != size:
                await self.resize(each, size)
        if BUG != "unordered":
            await self.set_status(name, size)

    async def set_status(self, name: str, size: str) -> None:
        await self.custom.patch_namespaced_custom_object(
            *GROUP, name, {"status": {"size": size}}, _content_type="application/merge-patch+json"
        )

    async def create(self, name: str, size: str) -> None:
        is_generated = BUG in ("stale-list", "cached-children")
        metadata = {"generateName": f"{name}-"} if is_generated else {"name": name}
        body = {"metadata": {**metadata, "labels": {"shop": name}}, "data": {"size": size}}
        try:
            await self.core.create_namespaced_config_map("default", body)
        except client.ApiException as error:
            if error.status != 409:
                raise
        if BUG == "cached-children":
            await asyncio.sleep(0.1)  # the event arrives meanwhile, usually

    async def resize(self, child: Any, size: str) -> None:
        name = child["metadata"]["name"]
        if BUG == "unordered":
            await self.core.patch_namespaced_config_map(name, "default", {"data": {"size": size}})
            return
        child["data"]["size"] = size
        try:
            await self.core.replace_namespaced_config_map(name, "default", child)
        except client.ApiException as error:
            if error.status != 409 or BUG != "conflict-ignored":
                raise

    async def delete(self, name: str) -> None:
        try:
            await self.core.delete_namespaced_config_map(name, "default")
        except client.ApiException as error:
            if error.status != 404:
                raise


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api:
        await ShopOperator(api).run()


if __name__ == "__main__":
    asyncio.run(main())
