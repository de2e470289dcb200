"""Where the trace endpoint of an operator is: a URL, or the port of a pod that the dashboard forwards.

    http://127.0.0.1:8090                           a process of this machine, or a forwarded port
    deployment/shop-system/shop-manager:8090        a ready pod of a Deployment
    pod/shop-system/shop-manager-5d9f-x7k2p:8090    one pod, such as the leader of several replicas

A pod is selected for each connection, so that a new one is found after a rollout.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import Pod
from kubewright.client.readiness import readiness_of
from kubewright.dashboard.server import DashboardError, is_loopback

if TYPE_CHECKING:
    from kubewright.client import Client

_REFERENCE: Final = re.compile(r"(deployment|pod)/([a-z0-9-]+)/([a-z0-9.-]+):(\d{1,5})")


class OperatorEndpoint:
    """The address of a trace endpoint, checked."""

    def __init__(self, text: str, client: Client | None = None) -> None:
        """`client` forwards ports of pods. Raises `DashboardError` for an address that cannot be used."""
        self._text = text
        self._client = client
        self._reference = _REFERENCE.fullmatch(text)
        if self._reference is not None:
            if client is None:
                raise DashboardError(f"--operator {text}: no cluster is connected; use a URL")
            return
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DashboardError(
                f"--operator {text}: expected a URL such as http://127.0.0.1:8090, or "
                "deployment/NAMESPACE/NAME:PORT"
            )
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise DashboardError(
                f"--operator {text}: the token would be sent without TLS; use deployment/NAMESPACE/NAME:PORT "
                "or forward the port to this machine"
            )

    def __str__(self) -> str:
        return self._text

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Return the URL; ports of pods are forwarded within the block. Raises `OSError` without a pod."""
        if self._reference is None:
            parts = urlsplit(self._text)
            yield f"{parts.scheme}://{parts.netloc}"
            return
        kind, namespace, name, port = self._reference.groups()
        assert self._client is not None
        pod = name if kind == "pod" else await self._find_pod(self._client, namespace, name)
        async with self._client.port_forward(pod, int(port), namespace=namespace) as forward:
            yield f"http://127.0.0.1:{forward.local_port}"

    async def _find_pod(self, client: Client, namespace: str, name: str) -> str:
        deployment = await client.get(Deployment, name, namespace=namespace)
        selector = deployment.spec.selector if deployment.spec is not None else None
        pods = await client.list(Pod, namespace=namespace, labels=selector)
        ready = [pod.name for pod in pods if readiness_of(pod).is_ready]
        if not ready:
            raise OSError(f"Deployment {namespace}/{name} has no pod that is ready")
        return min(ready)
