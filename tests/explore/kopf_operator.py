"""An operator written with kopf that looks right: each Shop gets a ConfigMap.

The handler is called again after a crash, and a name that the API server generates is then another one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

# kopf imports these for its credentials and type checks if they are installed, which takes seconds.
sys.modules.update(dict.fromkeys(("kubernetes", "kubernetes_asyncio")))  # type: ignore[arg-type]

import kopf  # noqa: E402

from kubewright import Client  # noqa: E402
from kubewright.api.errors import AlreadyExists  # noqa: E402

GROUP = "shops.example.com"
FIXED = os.environ.get("SHOP_FIXED") == "1"

kopf.on.login()(kopf.login_with_kubeconfig)


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    settings.posting.enabled = False
    settings.networking.error_backoffs = [0.1, 0.2, 0.5]
    memo.client = Client.connect(metrics=False)


@kopf.on.create(GROUP, "v1", "shops", backoff=0.2)
async def create_settings(name: str, namespace: str, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:
    metadata = {"name": name} if FIXED else {"generateName": f"{name}-"}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"shop": name}}
    kopf.adopt(settings, owner=body)
    try:
        await memo.client.create(settings, namespace=namespace)
    except AlreadyExists:
        pass


if __name__ == "__main__":
    kopf.run(standalone=True, namespaces=["default"])
