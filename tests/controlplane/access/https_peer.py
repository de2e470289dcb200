"""A small HTTPS server of another organization: a token issuer, or a webhook."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from kubewright.tls.certificates import CertificateAuthority


class HTTPSPeer:
    """Serves functions at paths, with a certificate of its own authority."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = CertificateAuthority.create("peer-ca")
        self.ca = self._authority.certificate.decode()
        self.app = web.Application()
        self.url = ""

    def add(self, path: str, function: Callable[[web.Request], Awaitable[web.Response]]) -> None:
        self.app.router.add_route("*", path, function)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[HTTPSPeer]:
        pair = self._authority.issue("peer", hosts=("127.0.0.1",), server=True)
        certificate, key = self._folder / "peer.crt", self._folder / "peer.key"
        pair.write(certificate, key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        runner = web.AppRunner(self.app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert runner.addresses
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def kubeconfig(self, path: str) -> Path:
        """Write a kubeconfig whose server is a path of this peer."""
        import base64

        import yaml

        file = self._folder / "peer.kubeconfig"
        cluster = {
            "server": self.url + path,
            "certificate-authority-data": base64.b64encode(self.ca.encode()).decode(),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "peer", "cluster": cluster}],
            "users": [{"name": "server", "user": {"token": "secret"}}],
            "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": "server"}}],
            "current-context": "peer",
        }
        file.write_text(yaml.safe_dump(document))
        return file
