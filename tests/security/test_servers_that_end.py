"""Servers that stop, are killed, or start without storage: clients get no 500, no process is left."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import click
import pytest
import yaml
from bench import Unavailable
from bench._postgresql import PostgreSQLServer
from tests.waiting import eventually

from kubewright.cli.clusters.up_start import start_plane
from kubewright.controlplane import ControlPlane
from kubewright.storage import MemoryStorage, StorageUnavailable

linux = pytest.mark.skipif(sys.platform != "linux", reason="--workers requires Linux")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Server:
    """`kubewright up` in a directory."""

    def __init__(self, directory: Path, workers: int) -> None:
        options = (
            "--workers",
            str(workers),
            "--quiet",
            "--store",
            "sqlite:state.db",
            "--ready-file",
            "ready",
        )
        self.errors = directory / "stderr"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kubewright.cli", "up", *options],
                cwd=directory,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        until = time.monotonic() + 120
        while not (directory / "ready").exists():
            assert self.process.poll() is None, self.errors.read_text()
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.05)
        config = yaml.safe_load((directory / "state.kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url = cluster["server"]
        self.context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        for name in ("client-certificate", "client-key"):
            (directory / name).write_bytes(base64.b64decode(user[f"{name}-data"]))
        self.context.load_cert_chain(directory / "client-certificate", directory / "client-key")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.workers = [int(each) for each in children.read_text().split()] if workers > 1 else []

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.context))


@contextmanager
def running(directory: Path, workers: int) -> Iterator[Server]:
    server = Server(directory, workers)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def _write(server: Server, number: int, statuses: Counter[int]) -> None:
    """Read and write on one connection until the server closes it."""
    paths = (CONFIG_MAPS, "/apis/apps/v1/deployments", "/apis/metrics.k8s.io/v1beta1/nodes")
    async with server.session() as session:
        for count in range(1_000_000):
            body = {"metadata": {"name": f"c-{number}-{count}"}}
            method, path = ("POST", CONFIG_MAPS) if count % 2 else ("GET", paths[count // 2 % len(paths)])
            try:
                async with session.request(method, server.url + path, json=body) as response:
                    await response.read()
                    statuses[response.status] += 1
            except (aiohttp.ClientError, OSError):
                return


async def _stop_under_load(server: Server, number: signal.Signals) -> Counter[int]:
    """Send a signal to a server while requests are served; return the status codes of the responses."""
    statuses: Counter[int] = Counter()
    writers = [asyncio.create_task(_write(server, each, statuses)) for each in range(12)]
    await eventually(lambda: statuses[201] >= 60)
    server.process.send_signal(number)
    await asyncio.gather(*writers)
    return statuses


@linux
@pytest.mark.parametrize("workers", [1, 2])
async def test_requests_during_a_stop_succeed_or_get_503(tmp_path: Path, workers: int) -> None:
    with running(tmp_path, workers) as server:
        statuses = await _stop_under_load(server, signal.SIGTERM)
        assert set(statuses) <= {200, 201, 503}, (statuses, server.errors.read_text())
        await eventually(lambda: server.process.poll() is not None)
        assert server.process.returncode == 0
        assert not any(map(_runs, server.workers))


@linux
async def test_workers_of_a_killed_server_end(tmp_path: Path) -> None:
    """Neither a watch nor a request whose body does not end keeps a worker running."""
    with running(tmp_path, 2) as server:
        assert server.workers

        async def body() -> Any:
            yield b"{"
            await asyncio.sleep(3600)

        async def hold(number: int) -> None:
            async with server.session() as session:
                if number % 2:
                    await session.post(server.url + CONFIG_MAPS, data=body())
                    return
                async with session.get(f"{server.url}{CONFIG_MAPS}?watch=true") as response:
                    await response.read()

        held = [asyncio.create_task(hold(number)) for number in range(16)]
        statuses = await _stop_under_load(server, signal.SIGKILL)
        assert set(statuses) <= {200, 201, 503}, statuses
        await eventually(lambda: not any(map(_runs, server.workers)))
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        assert "the process that owns the store has ended" in server.errors.read_text()


@pytest.mark.parametrize("work", ["time.sleep(3600)", "exec('while True: pass')"])
def test_a_busy_worker_ends_with_its_parent(work: str) -> None:
    module = "kubewright.controlplane.replicas.workers"
    code = f"import time; from {module} import exit_with_parent as e; e(); {work}"
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        assert worker.stdin is not None
        worker.stdin.close()
        assert worker.wait(120) == 1
    finally:
        worker.kill()
        worker.wait()


async def test_a_start_waits_for_postgresql(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        server = PostgreSQLServer()
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        url = server.url("waiting", "timeout=1")
        starting = asyncio.create_task(
            start_plane(lambda: ControlPlane(store=url, controllers=False), asyncio.Event())
        )
        printed: list[str] = []

        def reports() -> bool:
            printed.append(capsys.readouterr().err)
            return "check that it is running, and the TLS options); trying again" in "".join(printed)

        await eventually(reports)
        server.start()
        plane = await starting
        assert plane is not None
        await plane.stop()
    finally:
        server.remove()


class UnavailableStorage(MemoryStorage):
    """A storage whose server is never reachable."""

    async def open(self) -> None:
        """Fail."""
        raise StorageUnavailable("PostgreSQL at 127.0.0.1: connection refused")


async def test_a_start_gives_up_and_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def create() -> ControlPlane:
        return ControlPlane(store=UnavailableStorage(), controllers=False)

    monkeypatch.setattr("kubewright.cli.clusters.up_start.STORAGE_TIMEOUT", 0.0)
    with pytest.raises(click.ClickException, match="connection refused; gave up after 0 s"):
        await start_plane(create, asyncio.Event())
    monkeypatch.setattr("kubewright.cli.clusters.up_start.STORAGE_TIMEOUT", 3600.0)
    stop = asyncio.Event()
    starting = asyncio.create_task(start_plane(create, stop))
    await asyncio.sleep(0)
    stop.set()
    assert await starting is None
