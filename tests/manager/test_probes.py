"""Health and readiness probes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from kubewright.manager import Probes
from kubewright.manager.observability.http import probe_server


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_named_checks(running: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    probes = Probes()
    broken: list[str] = []

    def disk() -> None:
        if broken:
            raise RuntimeError("the disk /dev/secret is full")

    async def network() -> None: ...

    probes.add_ready_check("disk", disk)
    probes.add_ready_check("network", network)
    server = probe_server(probes, host="127.0.0.1", port=0)
    async with running(server):
        await server.wait_until_started()
        url = f"http://127.0.0.1:{server.port}"
        assert await get(f"{url}/healthz") == (200, "ok")
        assert await get(f"{url}/readyz") == (200, "ok")
        assert await get(f"{url}/readyz?verbose") == (
            200,
            "[+]ping ok\n[+]disk ok\n[+]network ok\nreadyz check passed\n",
        )
        broken.append("yes")
        status, text = await get(f"{url}/readyz")
        assert status == 500
        assert "[-]disk failed: reason withheld" in text
        assert "secret" not in text
        assert any("secret" in getattr(record, "error", "") for record in caplog.records)
        assert await get(f"{url}/readyz?exclude=disk") == (200, "ok")
        assert (await get(f"{url}/readyz/disk"))[0] == 500
        assert (await get(f"{url}/readyz/network"))[0] == 200
        assert (await get(f"{url}/readyz/other"))[0] == 404
        assert (await get(f"{url}/healthz/ping"))[0] == 200
        assert (await get(f"{url}/elsewhere"))[0] == 404


async def test_port_in_use_is_one_error(running: Callable[..., Any]) -> None:
    import asyncio

    first = probe_server(Probes(), host="127.0.0.1", port=0)
    async with running(first):
        await first.wait_until_started()
        second = probe_server(Probes(), host="127.0.0.1", port=first.port)
        with pytest.raises(OSError, match=f"probes server cannot listen on 127.0.0.1:{first.port}"):
            await second.run(asyncio.Event())
