"""An operator written with kopf: each Shop gets a ConfigMap. `BUG` plants a bug.

- `generated`: the name of the ConfigMap is generated; the handler is called again after a crash or a timeout
- `permanent`: every error of the API server is permanent, and the handler is not called again
- `assumed`: after a timeout, the ConfigMap is assumed to exist
"""

from __future__ import annotations

import os
import sys
from typing import Any

# kopf imports these for its credentials and type checks if they are installed, which takes seconds.
sys.modules.update(dict.fromkeys(("kubernetes", "kubernetes_asyncio")))  # type: ignore[arg-type]

import kopf  # noqa: E402

from kubewright import Client  # noqa: E402
from kubewright.api.errors import AlreadyExists, APIError  # noqa: E402
from kubewright.client.errors import ConnectionFailed  # noqa: E402

BUG = os.environ.get("BUG", "")
TIMEOUT = 504

kopf.on.login()(kopf.login_with_kubeconfig)


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    settings.posting.enabled = False
    # Longer than an outage: kopf forgets a failed handler if it cannot store its progress.
    settings.networking.error_backoffs = [0.1, 0.2, 0.5, 1, 2, 3, 5]
    settings.watching.reconnect_backoff = 0.1
    memo.client = Client.connect(metrics=False)


@kopf.on.create("shops.example.com", "v1", "shops", backoff=0.3)
async def create_settings(name: str, namespace: str, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:
    metadata = {"generateName": f"{name}-"} if BUG == "generated" else {"name": name}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"shop": name}}
    kopf.adopt(settings, owner=body)
    try:
        await memo.client.create(settings, namespace=namespace)
    except AlreadyExists:
        pass
    except (APIError, ConnectionFailed) as error:
        if BUG == "permanent":
            raise kopf.PermanentError(f"cannot create settings: {error}") from error
        if BUG == "assumed" and getattr(error, "code", 0) == TIMEOUT:
            return
        raise


if __name__ == "__main__":
    kopf.run(standalone=True, namespaces=["default"])
