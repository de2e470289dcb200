"""Servers for a run: the in-process control plane, binaries of `KUBEBUILDER_ASSETS`, or a kubeconfig."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from kubewright.client import ClusterConfig, load_config
from kubewright.controlplane import ControlPlane
from kubewright.testing.server import start_kube_apiserver

CONTROLLERS = "garbage-collector-controller,namespace-controller"
"""The controllers that recordings depend on."""


NEED_CONTROLLERS = frozenset({"gc", "namespaces"})
"""Categories that need these controllers."""


@asynccontextmanager
async def control_plane(*, controllers: bool, version: str = "") -> AsyncIterator[ClusterConfig]:
    """Start a `ControlPlane` in this process, configured like the reference server, listening with TLS.

    `controllers` is for the categories of `NEED_CONTROLLERS` only: the reference server has no workload
    controllers, which would change the status of recorded objects.
    The administrator has a static token, as on the reference server: with a client certificate, requests that
    carry another token would still be authenticated by the certificate.
    """
    with tempfile.TemporaryDirectory(prefix="kubewright-conformance-") as folder:
        token, tokens = secrets.token_hex(16), Path(folder, "tokens.csv")
        tokens.write_text(f'{token},admin,admin-uid,"system:masters"\n')
        plane = ControlPlane(
            disable_admission_plugins=["ServiceAccount"],
            token_auth_file=tokens,
            kubeconfig=Path(folder, "kubeconfig"),
            controllers=controllers,
            service_account_issuer="https://kubernetes.default.svc",
            kubernetes_version=version,
        )
        async with plane:
            config = load_config(plane.kubeconfig)
            yield replace(config, token=token, client_certificate=None, client_key=None)


@asynccontextmanager
async def server(
    kubeconfig: str | None, context: str = "", *, controllers: bool = True, version: str = ""
) -> AsyncIterator[ClusterConfig]:
    """The server of a kubeconfig; else one from `KUBEBUILDER_ASSETS`; else the in-process control plane.

    `controllers` and `version` apply to the control plane.
    """
    if kubeconfig:
        yield load_config(kubeconfig, context=context)
    elif os.environ.get("KUBEBUILDER_ASSETS"):
        assets = Path(os.environ["KUBEBUILDER_ASSETS"])
        with start_kube_apiserver(assets) as config, controller_manager(assets, config):
            yield config
    else:
        async with control_plane(controllers=controllers, version=version) as config:
            yield config


def is_in_process(kubeconfig: str | None) -> bool:
    """Whether `server` starts the in-process control plane."""
    return not kubeconfig and not os.environ.get("KUBEBUILDER_ASSETS")


@contextmanager
def controller_manager(assets: Path, config: ClusterConfig) -> Iterator[None]:
    """Run kube-controller-manager with the controllers that recordings depend on, if the binary exists."""
    binary = assets / "kube-controller-manager"
    if not binary.exists():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="kubewright-conformance-") as folder:
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.write_text(_kubeconfig(config))
        process = subprocess.Popen(
            [
                binary,
                f"--kubeconfig={kubeconfig}",
                f"--controllers={CONTROLLERS}",
                "--leader-elect=false",
                "--secure-port=0",
                "--kube-api-qps=2000",
                "--kube-api-burst=2000",
                "--concurrent-namespace-syncs=20",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _kubeconfig(config: ClusterConfig) -> str:
    assert config.ca is not None
    authority = base64.b64encode(config.ca.read()).decode()
    cluster = {"server": config.server, "certificate-authority-data": authority}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": config.token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    return json.dumps(document)
