"""Rotation of the tokens in projected volumes, in fake time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from multidict import CIMultiDict

from kubewright.api.encoding import codec
from kubewright.client import Client, ClusterConfig
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse
from kubewright.workloads.nodes.processes.cluster_reader import ClusterReader
from kubewright.workloads.nodes.processes.volumes.volumes import PodContext, PodVolumes


class TokenServer:
    """Responds with numbered tokens; an interceptor of a client."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def __call__(self, request: APIRequest, call_next: CallNext) -> APIResponse:
        assert str(request) == "POST /api/v1/namespaces/shop/serviceaccounts/robot/token"
        spec = codec.loads(request.body)["spec"]
        self.requests.append(spec)
        token = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": spec["expirationSeconds"]},
            "status": {"token": f"token-{len(self.requests)}"},
        }
        return APIResponse(201, CIMultiDict(), codec.encode(token))


async def test_token_is_renewed_after_80_percent_of_its_lifetime(tmp_path: Path) -> None:
    projection = {"serviceAccountToken": {"audience": "vault", "expirationSeconds": 600, "path": "token"}}
    pod = {
        "metadata": {"name": "app", "namespace": "shop", "uid": "1"},
        "spec": {
            "serviceAccountName": "robot",
            "volumes": [{"name": "identity", "projected": {"sources": [projection]}}],
        },
    }
    tokens = TokenServer()
    client = Client.connect(ClusterConfig(server="https://127.0.0.1")).with_interceptor(tokens)
    volumes = PodVolumes(PodContext(pod, "", "", {}), ClusterReader(client), tmp_path, tmp_path / "claims")
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
    assert tokens.requests[0]["audiences"] == ["vault"]
    assert tokens.requests[0]["boundObjectRef"]["uid"] == "1"
    await volumes.close()
