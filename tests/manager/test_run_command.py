"""`kubewright run` in another process, against a control plane over TLS."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubewright.cli.operators.run import is_local
from kubewright.testing.server import start_test_server

PROGRAM = """
import os
from kubewright import Client, CustomResource, ObjectMeta, Operator, Spec, resource

class ShopSpec(Spec):
    size: int = 1

@resource(group="run.example.com", version="v1")
class Shop(CustomResource[ShopSpec, None], kw_only=True):
    pass

operator = Operator("shops")

@operator.reconcile(Shop)
async def reconcile(shop: Shop) -> None:
    print("started GENERATION", operator.settings.graceful_shutdown_timeout, os.getpid(), flush=True)

@operator.on_startup
async def begin(client: Client) -> None:
    wanted = Shop(metadata=ObjectMeta(name="a", namespace="default"), spec=ShopSpec())
    await client.apply(wanted, field_manager="test", force=True)

@operator.on_cleanup
def end() -> None:
    print("cleaned GENERATION", flush=True)
"""


class Running:
    """The command and the lines that it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def until(self, text: str) -> str:
        """Return the next line that contains a text."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            while True:
                line = (await self.process.stdout.readline()).decode()
                if not line:
                    raise AssertionError(f"no line with {text!r} in\n{''.join(self.lines)}")
                self.lines.append(line)
                if text in line:
                    return line

    async def rest(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.read(), 60)).decode()


@pytest.fixture
async def kubeconfig() -> AsyncIterator[Path]:
    async with start_test_server("tls", None, controllers=False) as server:
        yield server.plane.kubeconfig


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PROGRAM.replace("GENERATION", "1"))
    (tmp_path / "broken.py").write_text("def x(:\n")
    (tmp_path / "needy.py").write_text("import no_such_library\n")
    (tmp_path / "wrong.py").write_text(
        "from shop import Shop, operator\n\n\n"
        "@operator.reconcile(Shop)\nasync def reconcile(shop: Shop, size: int) -> None: ...\n"
    )
    return tmp_path


@asynccontextmanager
async def command(
    project: Path, *arguments: str, kubeconfig: Path | None = None, **environment: str
) -> AsyncIterator[Running]:
    known = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {"KUBECONFIG": "/nonexistent"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kubewright.cli",
        "run",
        *arguments,
        cwd=project,
        env={**os.environ, **known, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_command_installs_runs_and_stops_on_sigterm(project: Path, kubeconfig: Path) -> None:
    async with command(
        project, "shop", "--development", kubeconfig=kubeconfig, KUBEWRIGHT_GRACEFUL_SHUTDOWN_TIMEOUT="7.5"
    ) as running:
        assert "started 1 7.5" in await running.until("started 1")
        running.process.send_signal(signal.SIGTERM)
        await running.until("cleaned 1")
        assert await asyncio.wait_for(running.process.wait(), 60) == 0


async def test_signal_during_start_stops_the_command(project: Path, kubeconfig: Path) -> None:
    program = (project / "shop.py").read_text()
    slow = "print('beginning', flush=True)\n    await __import__('asyncio').sleep(1000)\n    wanted ="
    (project / "shop.py").write_text(program.replace("wanted =", slow, 1))
    async with command(project, "shop", "--development", kubeconfig=kubeconfig) as running:
        await running.until("beginning")
        running.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.process.wait(), 60) == 0


async def test_changed_source_restarts_the_operator(project: Path, kubeconfig: Path) -> None:
    async with command(
        project, "shop:operator", "--reload", "--development", kubeconfig=kubeconfig
    ) as running:
        await running.until("started 1")
        (project / "shop.py").write_text("this is not Python\n")
        await running.until("shop.py changed, restarting")
        await running.until("cleaned 1")
        await running.until("operator exited with code 1, waiting for a change")
        (project / "shop.py").write_text(PROGRAM.replace("GENERATION", "2"))
        pid = int((await running.until("started 2")).split()[-1])
        running.process.send_signal(signal.SIGTERM)
        await running.until("cleaned 2")
        assert await asyncio.wait_for(running.process.wait(), 60) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nothing",), "no module named nothing: run this where the project can be imported"),
        (("./shop.py:other",), "./shop.py has no operator named 'other'; use ./shop.py:operator"),
        (("../shop.py",), "../shop.py is not below the current directory"),
        (("broken",), "cannot import broken: broken.py:1: SyntaxError: invalid syntax"),
        (("needy.py",), "cannot import needy: needy.py:1: No module named 'no_such_library'"),
        (("wrong",), "cannot import wrong: wrong.py:4: reconcile: parameter 'size' has annotation int"),
        (("shop", "--probe-port", "99999"), "99999 is not in the range"),
        (("shop:other",), "shop has no operator named 'other'; use shop:operator"),
        (("shop", "--log-level", "loud"), "LOUD"),
        (("shop", "--kubeconfig", "/no/such/file"), "/no/such/file"),
    ],
)
async def test_usage_errors_are_one_line(project: Path, arguments: tuple[str, ...], complaint: str) -> None:
    async with command(project, *arguments) as running:
        text = await running.rest()
        assert await running.process.wait() != 0
    assert complaint in text
    assert "Traceback" not in text


async def test_webhook_port_in_use_is_an_error(project: Path, kubeconfig: Path) -> None:
    with (project / "shop.py").open("a") as program:
        program.write("\noperator.default(Shop)(lambda shop: None)\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with command(
            project, "shop", "--development", "--webhook-port", str(port), kubeconfig=kubeconfig
        ) as running:
            text = await running.rest()
            assert await running.process.wait() == 1
    assert f"Error: webhook server cannot listen on 127.0.0.1:{port}: " in text
    assert "cancelled" not in text


@pytest.mark.parametrize(
    ("server", "local"),
    [
        ("https://127.0.0.1:6443", True),
        ("https://127.8.9.1", True),
        ("https://[::1]:6443", True),
        ("https://localhost:6443", True),
        ("https://10.0.0.1:6443", False),
        ("https://prod.example.com", False),
        ("https://localhost.example.com", False),
    ],
)
def test_development_mode_is_the_default_only_for_local_servers(server: str, local: bool) -> None:
    assert is_local(server) is local


async def test_invalid_variable_is_named(project: Path) -> None:
    async with command(project, "shop", KUBEWRIGHT_PROBE_PORT="many") as running:
        assert "KUBEWRIGHT_PROBE_PORT='many': expected an integer" in await running.rest()
