"""Servers for a run: the in-process control plane, binaries of `KUBEBUILDER_ASSETS`, or a kubeconfig."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from kubewright.client import ClusterConfig, load_config
from kubewright.controlplane import ControlPlane
from kubewright.testing.server import real_server


@asynccontextmanager
async def control_plane() -> AsyncIterator[ClusterConfig]:
    """Start a `ControlPlane` in this process, configured like the reference server, listening with TLS.

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
            service_account_issuer="https://kubernetes.default.svc",
        )
        async with plane:
            config = load_config(plane.kubeconfig)
            yield replace(config, token=token, client_certificate=None, client_key=None)


@asynccontextmanager
async def server(kubeconfig: str | None, context: str = "") -> AsyncIterator[ClusterConfig]:
    """The server of a kubeconfig; else one from `KUBEBUILDER_ASSETS`; else the in-process control plane."""
    if kubeconfig:
        yield load_config(kubeconfig, context=context)
    elif os.environ.get("KUBEBUILDER_ASSETS"):
        with real_server() as config:
            yield config
    else:
        async with control_plane() as config:
            yield config
