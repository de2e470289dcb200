"""No process and no file of a container is left behind when the control plane stops, or is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.workloads.nodes.process_cluster import linux_only, start_process_cluster

from kubewright.workloads.nodes.processes.state_directory import StateDirectory

pytestmark = linux_only

# The second process leaves the session of the container.
DETACHING = "setsid sleep 321 & echo $! started; sleep 320"
SERVER = """
import asyncio
from tests.workloads.nodes.process_cluster import start_process_cluster

async def main():
    async with start_process_cluster() as cluster:
        await cluster.run_pod("app", "sh", "-c", "setsid sleep 321 & echo $! started; sleep 320")
        text = await cluster.wait_for_log("app", "started")
        process = cluster.nodes.runtime.process_of(cluster.current_run("app"))
        print(process.pid, text.split()[0], cluster.nodes.runtime.state.path, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def wait_until_ended(*processes: int) -> None:
    async with asyncio.timeout(120):
        while any(is_running(each) for each in processes):
            await asyncio.sleep(0.02)


async def test_stop_ends_all_processes() -> None:
    async with start_process_cluster() as cluster:
        await cluster.run_pod("app", "sh", "-c", DETACHING)
        detached = int((await cluster.wait_for_log("app", "started")).split()[0])
        runtime = cluster.nodes.runtime
        process = runtime.process_of(cluster.current_run("app"))  # type: ignore[attr-defined]
        folder = runtime.state.path  # type: ignore[attr-defined]
        assert is_running(process.pid)
        assert is_running(detached)
    await wait_until_ended(process.pid, detached)
    assert not folder.exists()


async def test_killed_server_leaves_nothing_after_the_next_start() -> None:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert server.stdout is not None
    async with asyncio.timeout(180):
        line = (await server.stdout.readline()).decode().split()
    main, detached, folder = int(line[0]), int(line[1]), Path(line[2])
    assert is_running(main)
    assert is_running(detached)
    server.send_signal(signal.SIGKILL)
    await server.wait()
    await wait_until_ended(main)
    state = StateDirectory(folder.parent)
    try:
        state.remove_stale()
        await wait_until_ended(detached)
        # Another process of the tests may have begun to remove it.
        async with asyncio.timeout(120):
            while folder.exists():
                await asyncio.sleep(0.02)
    finally:
        state.close()
