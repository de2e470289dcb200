"""Patches of the status of built-in kinds: only the changed fields are decoded, with the same results."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.core.v1 import Pod
from kubewright.api.errors import APIError
from kubewright.client import Client, patches
from kubewright.testing.server import start_test_server

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "x"},
}


async def patch_status(client: Client, change: dict[str, Any]) -> Pod:
    patch = patches.strategic_merge_patch(change)
    return await client.patch(Pod, "a", patch, namespace="default", subresource="status")


async def test_only_the_status_changes() -> None:
    warnings: list[str] = []
    async with start_test_server("in-process", controllers=False) as server:
        client = server.client(on_warning=warnings.append)
        await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x"}})
        await client.create(POD)
        before = (await client.get(Pod, "a", namespace="default")).spec
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        change = {"status": {"phase": "Running", "conditions": [condition], "unknown": 1}}
        patched = await patch_status(client, change)
        assert patched.status is not None
        assert patched.status.phase == "Running"
        assert patched.spec == before
        assert warnings == ['unknown field "status.unknown"']
        both = await patch_status(client, {"spec": {"nodeName": "n"}, "status": {"message": "m"}})
        assert both.spec == before
        assert both.status is not None
        assert (both.status.phase, both.status.message) == ("Running", "m")
        with pytest.raises(APIError, match="cannot convert int64 to"):
            await patch_status(client, {"status": {"phase": 1}})
