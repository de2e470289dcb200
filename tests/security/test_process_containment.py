"""No process of a container outlives its container or the server, whatever it does to be forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.workloads.nodes.process_cluster import ProcessCluster, linux_only, start_process_cluster

from kubewright.workloads.nodes.processes import state_directory
from kubewright.workloads.nodes.processes.state_directory import StateDirectory

pytestmark = linux_only

# A child, an orphan, sessions of their own, no environment, and ignored signals. The last argument of each
# program names it, since the environment does not.
ESCAPES = """
import os, signal, subprocess, sys, time
name = sys.argv[1]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = ["sleep", "1000." + name]
subprocess.Popen(sleep)
subprocess.Popen(sleep, start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
subprocess.Popen(sleep, start_new_session=True, env={})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        script = "trap '' TERM HUP; sleep 1000." + name + "; :"
        subprocess.Popen(["sh", "-c", script], env={}, start_new_session=True)
        time.sleep(1000)
    os._exit(0)
print("started", flush=True)
if sys.argv[2:] == ["exit"]:
    sys.exit(3)
time.sleep(1000)
"""
# Each process starts the next one and ends.
CHAIN = """
import os, sys
print("started", flush=True)
if os.fork():
    os.wait()
    import time; time.sleep(1000)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
SERVER = """
import asyncio, sys
from tests.security.test_process_containment import ESCAPES
from tests.workloads.nodes.process_cluster import start_process_cluster

async def main():
    async with start_process_cluster() as cluster:
        await cluster.run_pod("app", sys.executable, "-c", ESCAPES, sys.argv[1])
        await cluster.wait_for_log("app", "started")
        runtime = cluster.nodes.runtime
        process = runtime.process_of(cluster.current_run("app"))
        print(process.pid, runtime.state.path, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def processes_of(name: str) -> list[int]:
    """Return the processes that have a name in their arguments, and have not ended."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdecimal() and name.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                found.append(int(entry))
    return found


async def wait_until_ended(name: str) -> None:
    async with asyncio.timeout(60):
        while processes_of(name):
            await asyncio.sleep(0.02)


@pytest.fixture
async def name() -> AsyncIterator[str]:
    """A number that no other test has; what is left of its processes is killed after the test."""
    name = str(uuid.uuid4().int)
    yield name
    for process in processes_of(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.fixture(params=["cgroup", "subreaper"])
async def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessCluster]:
    """A cluster whose containers have cgroups where the machine allows them, and one without."""
    if request.param == "subreaper":
        monkeypatch.setattr(state_directory, "create_cgroup", lambda name: None, raising=False)
    async with start_process_cluster() as cluster:
        yield cluster


async def wait_until_deleted(cluster: ProcessCluster, name: str) -> None:
    async with asyncio.timeout(60):
        while cluster.nodes.pods.matching(name):
            await asyncio.sleep(0.02)


async def test_deleted_pod_leaves_no_process(cluster: ProcessCluster, name: str) -> None:
    spec = {"terminationGracePeriodSeconds": 1}
    await cluster.run_pod("app", sys.executable, "-c", ESCAPES, name, spec=spec)
    await cluster.wait_for_log("app", "started")
    async with asyncio.timeout(60):
        while len(processes_of(name)) < 6:
            await asyncio.sleep(0.02)
    await cluster.client.delete("Pod", "app")
    await wait_until_deleted(cluster, "app")
    await wait_until_ended(name)


async def test_container_that_exits_leaves_no_process(cluster: ProcessCluster, name: str) -> None:
    spec = {"restartPolicy": "Never"}
    await cluster.run_pod("app", sys.executable, "-c", ESCAPES, name, "exit", spec=spec)
    assert (await cluster.exit_of("app"))["exitCode"] == 3
    await wait_until_ended(name)


async def test_chain_of_processes_ends_with_its_pod(cluster: ProcessCluster, name: str) -> None:
    await cluster.run_pod("app", sys.executable, "-c", CHAIN, name)
    await cluster.wait_for_log("app", "started")
    await cluster.client.delete("Pod", "app", grace_period=0)
    await wait_until_deleted(cluster, "app")
    await wait_until_ended(name)


async def test_processes_of_exec_end_with_their_container(cluster: ProcessCluster, name: str) -> None:
    await cluster.run_pod("app", "sleep", "1000")
    await cluster.container("app", lambda status: status["started"])
    script = f"env -i setsid sleep 1000.{name} >/dev/null 2>&1 </dev/null &"
    assert await cluster.exec("app", "sh", "-c", script) == (0, "")
    async with asyncio.timeout(60):
        while not processes_of(name):
            await asyncio.sleep(0.02)
    await cluster.client.delete("Pod", "app", grace_period=0)
    await wait_until_ended(name)


async def test_container_that_kills_its_supervisor_ends(name: str) -> None:
    async with start_process_cluster() as cluster:
        script = f"setsid sleep 1000.{name} & kill -9 $PPID; sleep 1001.{name}"
        await cluster.run_pod("app", "sh", "-c", script, spec={"restartPolicy": "Never"})
        assert (await cluster.exit_of("app"))["exitCode"] == 137
        await wait_until_ended(name)
        await cluster.run_pod("other", "sh", "-c", "echo works; sleep 1000")
        await cluster.wait_for_log("other", "works")


OTHER_USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def interpreter_of_other_user() -> str:
    """Return a Python that a user without rights can execute, or skip the test."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("requires root and setpriv to start a server as another user")
    for each in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        program = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
        if (
            subprocess.run([*OTHER_USER, each, "-c", program], check=False, capture_output=True).returncode
            == 0
        ):
            return each
    pytest.skip("another user cannot execute Python")


@contextlib.asynccontextmanager
async def started_server(
    name: str, *command: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int, Path]]:
    """Start a server with a pod; yield it, the supervisor of its container, and its state directory."""
    root = Path(__file__).parents[2]
    paths = [root / "src", root, sysconfig.get_path("purelib")]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    server = await asyncio.create_subprocess_exec(
        *command, "-c", SERVER, name, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert server.stdout is not None
        async with asyncio.timeout(120):
            main, folder = (await server.stdout.readline()).decode().split()
            while len(processes_of(f"1000.{name}")) < 5:
                await asyncio.sleep(0.02)
        supervisor = int(Path(f"/proc/{main}/stat").read_text().rpartition(")")[2].split()[1])
        yield server, supervisor, Path(folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.kill()
        await server.wait()


@pytest.mark.parametrize("user", ["this", "other"])
async def test_killed_server_leaves_no_process(name: str, user: str) -> None:
    command = [sys.executable] if user == "this" else [*OTHER_USER, interpreter_of_other_user()]
    async with started_server(name, *command) as (server, _, folder):
        server.kill()
        await server.wait()
        await wait_until_ended(name)
        shutil.rmtree(folder)


async def test_next_start_ends_processes_without_a_supervisor(name: str) -> None:
    async with started_server(name, sys.executable) as (server, supervisor, folder):
        # The server cannot react to the end of the supervisor.
        server.send_signal(signal.SIGSTOP)
        os.kill(supervisor, signal.SIGKILL)
        server.kill()
        await server.wait()
    state = StateDirectory(folder.parent)
    try:
        assert processes_of(f"1000.{name}")
        state.remove_stale()
        if state.cgroup("any"):
            await wait_until_ended(name)
        else:
            # Three have an empty environment.
            async with asyncio.timeout(60):
                while len(processes_of(f"1000.{name}")) > 3:
                    await asyncio.sleep(0.02)
        # Another process of the tests may have begun to remove it.
        async with asyncio.timeout(60):
            while folder.exists():
                await asyncio.sleep(0.02)
    finally:
        state.close()
