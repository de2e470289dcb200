"""An operator without any library: each Shop gets a ConfigMap with its size, and the size in its status.

It stands for operators in other languages and starts fast. `BUG` plants a bug.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

BUG = os.environ.get("BUG", "")
SHOPS = "/apis/shops.example.com/v1/namespaces/default/shops"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RETRY_SECONDS = 0.2


class ResponseError(Exception):
    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status} {body}")
        self.status = status


class Server:
    def __init__(self) -> None:
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.address = urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as file:
            for name in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[name]))
            file.flush()
            self.context.load_cert_chain(file.name)

    def open(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection(
            self.address.hostname or "", self.address.port, context=self.context, timeout=30
        )
        headers = {
            "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"
        }
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        if response.status >= 300:
            raise ResponseError(response.status, response.read())
        return response

    def send(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.open(method, path, body).read())


class ShopOperator:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.failed: dict[str, Any] = {}

    def run(self) -> None:
        is_first = True
        while True:
            try:
                shops = self.server.send("GET", SHOPS)
                for shop in shops["items"]:
                    if is_first or BUG != "no-relist":
                        self.handle(shop)
                is_first = False
                self.watch(shops["metadata"]["resourceVersion"])
            except (ResponseError, OSError, http.client.HTTPException) as error:
                print("list or watch failed:", error)
            while BUG == "watch-ends":
                time.sleep(60)
            time.sleep(RETRY_SECONDS)

    def watch(self, revision: str) -> None:
        query = f"?watch=true&resourceVersion={revision}&allowWatchBookmarks=true&timeoutSeconds=20"
        response = self.server.open("GET", SHOPS + query)
        while line := response.readline():
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            if event["type"] in ("ADDED", "MODIFIED"):
                self.handle(event["object"])

    def handle(self, shop: Any) -> None:
        """Reconcile with retries."""
        while True:
            try:
                self.reconcile(shop)
                return
            except (ResponseError, OSError, http.client.HTTPException) as error:
                print("reconcile failed:", error)
                if BUG == "gives-up":
                    return
                time.sleep(RETRY_SECONDS)

    def reconcile(self, shop: Any) -> None:
        name, size = shop["metadata"]["name"], str(shop.get("spec", {}).get("size", 0))
        if shop.get("status", {}).get("size") == size:
            return
        if BUG == "status-first":
            self.server.send("PATCH", f"{SHOPS}/{name}", {"status": {"size": size}})
        self.ensure_settings(shop, name, size)
        if BUG != "status-first":
            self.server.send("PATCH", f"{SHOPS}/{name}", {"status": {"size": size}})

    def ensure_settings(self, shop: Any, name: str, size: str) -> None:
        version = "resourceVersion=0" if BUG == "stale-list" else ""
        found = self.server.send("GET", f"{CONFIG_MAPS}?{version}&labelSelector=shop%3D{name}")["items"]
        if not found:
            metadata: dict[str, Any] = {"labels": {"shop": name}, "ownerReferences": [owner(shop)]}
            is_generated = BUG == "stale-list"
            chosen = f"{name}-{os.urandom(2).hex()}" if BUG == "random-name" else name
            metadata |= {"generateName": f"{name}-"} if is_generated else {"name": chosen}
            created = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size}}
            self.server.send("POST", CONFIG_MAPS, created)
            return
        for settings in found:
            if settings["data"]["size"] != size:
                settings["data"]["size"] = size
                try:
                    self.server.send("PUT", f"{CONFIG_MAPS}/{settings['metadata']['name']}", settings)
                except ResponseError as error:
                    if error.status != 409 or BUG != "conflict-ignored":
                        raise


def owner(shop: Any) -> dict[str, Any]:
    metadata = shop["metadata"]
    return {
        "apiVersion": shop["apiVersion"],
        "kind": "Shop",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


if __name__ == "__main__":
    ShopOperator(Server()).run()
