"""kopf: the control loop of `bench/controller.py`, as its users write it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from typing import Any

# The script's own folder would hide the library of the same name.
sys.path.pop(0)

import kopf
from kubernetes_asyncio import client, config

EXPECTED = int(os.environ["EXPECT"])
logging.disable(logging.CRITICAL)
state: dict[str, Any] = {"seen": 0}


def say(event: str, **more: Any) -> None:
    """Print one line for the benchmark process."""
    print(json.dumps({"event": event, "t": time.monotonic(), **more}), flush=True)


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """No events, no scanning: only the loop is measured."""
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()
    await config.load_kube_config(os.environ["KUBECONFIG"])
    state["api"] = client.CoreV1Api(client.ApiClient())
    if not EXPECTED:
        say("synced", sync_s=0.0, count=0)


@kopf.on.event("bench.example.dev", "v1", "widgets")
async def count(type: str | None, **_: Any) -> None:
    """Report the sync when all objects have been seen."""
    if type is None:
        state["seen"] += 1
        if state["seen"] == EXPECTED:
            say("synced", sync_s=0.0, count=EXPECTED)


@kopf.on.create("bench.example.dev", "v1", "widgets", labels={"loop": "1"})
async def create(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    """Make the ConfigMap and set the status."""
    metadata = body["metadata"]
    name = metadata["name"] + "-cm"
    config_map: dict[str, Any] = {"metadata": {"name": name}, "data": {"image": body["spec"]["image"]}}
    kopf.adopt(config_map)
    try:
        await state["api"].create_namespaced_config_map(metadata["namespace"], config_map)
    except client.ApiException as error:
        if error.status != 409:
            raise
    patch.status.update(phase="Ready", observedGeneration=metadata["generation"], configMap=name)


async def main() -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await kopf.operator(clusterwide=True, standalone=True, stop_flag=stop)


if __name__ == "__main__":
    asyncio.run(main())
