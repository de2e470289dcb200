"""Serving certificates of an extension API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.api.gvk import GroupVersionKind
from kubewright.tls.certificates import KeyPair
from kubewright.webhook.certificates import ManagedCertificates

if TYPE_CHECKING:
    from kubewright.apiserver.http.server import HTTPServer
    from kubewright.client import Client

    from .settings import APIServerSettings

API_SERVICE = GroupVersionKind("apiregistration.k8s.io", "v1", "APIService")


def certificate_files(settings: APIServerSettings) -> KeyPair | None:
    """Return the certificate in files, which `HTTPServer` loads again when they change."""
    if settings.development or not settings.certificates:
        return None
    directory = Path(settings.certificates)
    try:
        return KeyPair.from_files(directory / "tls.crt", directory / "tls.key")
    except OSError as error:
        raise OSError(f"cannot read serving certificate {error.filename}: {error.strerror}") from None


@asynccontextmanager
async def managed_certificates(
    https: HTTPServer,
    cluster: Client,
    *,
    secret: str,
    namespace: str,
    hosts: Sequence[str],
    api_services: Sequence[str],
) -> AsyncIterator[ManagedCertificates]:
    """Use the certificate of a Secret while the body runs, and renew it.

    The CA bundle is written into the APIServices. Start the server in the body.
    """
    certificates = ManagedCertificates(
        cluster,
        secret=secret,
        namespace=namespace,
        hosts=hosts,
        inject=[(API_SERVICE, name) for name in api_services],
        on_change=https.use_certificate,
    )
    await certificates.start()
    try:
        yield certificates
    finally:
        await certificates.stop()
