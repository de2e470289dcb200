"""Rotation of the tokens in projected volumes, in fake time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kubewright.workloads.nodes.processes.cluster_reader import ClusterReader
from kubewright.workloads.nodes.processes.volumes.volumes import PodContext, PodVolumes


class TokenSender:
    """Returns numbered tokens."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def send(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        assert (method, path) == ("POST", "/api/v1/namespaces/shop/serviceaccounts/robot/token")
        self.requests.append(body["spec"])
        status = {"token": f"token-{len(self.requests)}"}
        return {"spec": {"expirationSeconds": body["spec"]["expirationSeconds"]}, "status": status}


async def test_token_is_renewed_after_80_percent_of_its_lifetime(tmp_path: Path) -> None:
    projection = {"serviceAccountToken": {"audience": "vault", "expirationSeconds": 600, "path": "token"}}
    pod = {
        "metadata": {"name": "app", "namespace": "shop", "uid": "1"},
        "spec": {
            "serviceAccountName": "robot",
            "volumes": [{"name": "identity", "projected": {"sources": [projection]}}],
        },
    }
    sender = TokenSender()
    volumes = PodVolumes(PodContext(pod, "", "", {}), ClusterReader(sender), tmp_path, tmp_path / "claims")
    await volumes.set_up()
    file = tmp_path / "identity" / "token"
    assert file.read_text() == "token-1"
    volumes.refresh()
    await asyncio.sleep(479)
    assert file.read_text() == "token-1"
    await asyncio.sleep(2)
    assert file.read_text() == "token-2"
    await asyncio.sleep(480)
    assert file.read_text() == "token-3"
    assert sender.requests[0]["audiences"] == ["vault"]
    assert sender.requests[0]["boundObjectRef"]["uid"] == "1"
    await volumes.close()
