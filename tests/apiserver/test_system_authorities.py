"""aiohttp's contexts read the certificate authorities of the system at their first connection."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kubewright.tls.certificates import CertificateAuthority

PROGRAM = """
import asyncio, ssl, sys
import kubewright.apiserver.http
import aiohttp
from aiohttp import connector, web

contexts = [connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED]
print([context.cert_store_stats()["x509_ca"] for context in contexts])
print("set_default_verify_paths" in vars(ssl.SSLContext))

async def main():
    async def hello(request):
        return web.Response(text="hello")

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(sys.argv[1], sys.argv[2])
    runner = web.ServerRunner(web.Server(hello))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server).start()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"https://127.0.0.1:{runner.addresses[0][1]}") as response:
            print(await response.text())
    await runner.cleanup()

asyncio.run(main())
print([context.cert_store_stats()["x509_ca"] for context in contexts], type(contexts[0]).__name__)
"""


def test_contexts_read_authorities_at_their_first_connection(tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    (tmp_path / "ca").write_bytes(authority.certificate)
    authority.issue("server", hosts=("127.0.0.1",), server=True).write(tmp_path / "crt", tmp_path / "key")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "crt"), str(tmp_path / "key")],
        env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "ca"), "SSL_CERT_DIR": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["[0, 0]", "False", "hello", "[1, 0] SSLContext"], done.stderr
