"""No background loop ends silently: it is started again, and the server is unready while it fails.

The first test is a law about the source: a coroutine function with an endless loop is only started by
`run_forever`, unless it belongs to a connection, a pod or a component whose end is noticed. The others end
every loop of running servers.
"""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

import kubewright
from kubewright import APIServerApp, CustomResource, Spec, background, resource
from kubewright.apiserver import APIServer
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.background import BackgroundLoop, background_loops, failing_loops, require, run_forever
from kubewright.controlplane import ControlPlane
from kubewright.extension import serve_app
from kubewright.storage.memory import MemoryStorage

SOURCE = Path(kubewright.__file__).parent
PACKAGES = (
    "apiserver controlplane storage workloads extension manager cache dashboard webhook controller node cli"
)

OTHER_TASKS = {
    "apiserver/rest/verbs/watch.py": "one connection",
    "apiserver/streams/channels.py": "one connection",
    "controlplane/aggregation/proxy.py": "one connection",
    "controlplane/aggregation/tunnels.py": "one connection",
    "controlplane/kubelets/log_websockets.py": "one connection",
    "dashboard/proxy.py": "one connection",
    "workloads/nodes/containers/runtime.py": "one connection",
    "workloads/nodes/processes/container_process.py": "one container or connection",
    "controller/controller.py": "workers, awaited by `run`, whose end ends the manager",
    "controller/daemons.py": "a function of the user for one object, supervised",
    "controller/sources.py": "the end is logged, and part of the state of the source",
    "manager/fleets/fleet_runtime.py": "one cluster; errors are part of its status",
    "node/devices/plugin.py": "awaited by `run`",
    "workloads/nodes/plugins/device_endpoint.py": "one plug-in, which is unhealthy afterwards",
    "storage/etcd/watch.py": "one watch; its reader receives the error",
    "storage/postgresql/watch.py": "one watch; its reader receives the error",
    "storage/postgresql/storage.py": "batches, as long as there are any; the callers receive the errors",
    "storage/testing.py": "a test",
}
"""Modules with tasks that have endless loops and are not background loops of a server, and why."""


def bare_loops(source: str) -> list[str]:
    """Return the coroutine functions with a `while` or `async for` that are started by `create_task`."""
    tree = ast.parse(source)
    functions = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.AsyncFunctionDef)}
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or _name(call.func) not in ("create_task", "ensure_future"):
            continue
        if isinstance(call.func, ast.Attribute) and _name(call.func.value) == "group":
            continue  # a task group raises the errors of its tasks
        started = call.args[0].func if isinstance(call.args[0], ast.Call) else None
        is_local = isinstance(started, ast.Name) or (
            isinstance(started, ast.Attribute) and _name(started.value) == "self"
        )
        function = functions.get(_name(started)) if started is not None and is_local else None
        if function is not None and any(
            isinstance(each, ast.While | ast.AsyncFor) for each in ast.walk(function)
        ):
            found.append(function.name)
    return found


def _name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def test_loops_are_started_by_run_forever() -> None:
    found = {
        str(path.relative_to(SOURCE)): names
        for package in PACKAGES.split()
        for path in (SOURCE / package).rglob("*.py")
        if (names := bare_loops(path.read_text()))
    }
    assert not {path: names for path, names in found.items() if path not in OTHER_TASKS}
    assert set(OTHER_TASKS) <= set(found), "a module has no such task any more; remove it from the list"


def test_the_law_finds_a_loop() -> None:
    source = """
    class A:
        def start(self):
            self.task = asyncio.create_task(self._run())
        async def _run(self):
            while True:
                await asyncio.sleep(1)
    """
    assert bare_loops(textwrap.dedent(source)) == ["_run"]


def end(loop: BackgroundLoop) -> None:
    """End a loop at the place where it waits, as an error would."""
    loop.task.cancel()
    loop.task.uncancel()


async def readiness(server: APIServer) -> int:
    response = await server.handle(HTTPRequest("GET", "/readyz", user=SYSTEM))
    return response.status


async def check_every_loop(server: APIServer, expected: set[str]) -> None:
    """End every loop; it is reported and started again, and the server becomes ready again."""
    loops = {each.name: each for each in background_loops() if not each.error}
    assert expected <= set(loops), sorted(loops)
    assert await readiness(server) == 200
    final = [each for each in loops.values() if not each.can_restart]
    for loop in loops.values():
        if loop in final:
            continue
        end(loop)
        await eventually(lambda loop=loop: loop.error)
        if loop.required:
            assert loop.name in failing_loops()
            assert await readiness(server) == 500
        await eventually(lambda loop=loop: loop.restarts == 1, ignore=())
        assert not loop.task.done()
    await eventually(lambda: not failing_loops())
    assert await readiness(server) == 200
    for loop in final:
        end(loop)
        await eventually(lambda loop=loop: loop.name in failing_loops())
        assert await readiness(server) == 500


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MIN_DELAY", 0.2)


async def test_every_loop_of_a_control_plane(tmp_path: Path) -> None:
    async with ControlPlane(store=f"sqlite:{tmp_path / 'state.db'}", port=0, nodes=1) as plane:
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        request = HTTPRequest(
            "POST", "/api/v1/namespaces/default/pods", user=SYSTEM, body=json.dumps(pod).encode()
        )
        assert (await plane.server.handle(request)).status == 201
        await eventually(lambda: any(each.name.startswith("scheduler") for each in background_loops()))
        expected = {
            "storage maintenance",
            "storage watch",
            "identity lease",
            "node heartbeats",
            "scheduler default-scheduler",
            "reflector Pod",
        }
        await check_every_loop(plane.server, expected)


class NoteSpec(Spec):
    text: str = ""


@resource(group="notes.example.com", version="v1")
class Note(CustomResource[NoteSpec, None]):
    """A note."""


async def test_every_loop_of_an_api_server() -> None:
    app = APIServerApp("notes")
    app.add(Note)
    async with serve_app(app, None) as running:
        await check_every_loop(running.server, {"storage maintenance", "storage watch"})


@asynccontextmanager
async def started_server() -> AsyncIterator[APIServer]:
    async with APIServer(MemoryStorage()) as server:
        yield server


async def test_a_loop_that_fails_again_and_again_is_visible(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async with started_server() as server:
        task = run_forever(fail, name="example")
        await eventually(lambda: sum("background loop failed" in each.message for each in caplog.records) > 2)
        assert failing_loops() == {"example": "ValueError: broken"}
        response = await server.handle(HTTPRequest("GET", "/readyz/background-loops", user=SYSTEM))
        assert (response.status, response.body) == (
            500,
            b"internal server error: example: ValueError: broken\n",
        )
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await readiness(server) == 200


async def test_a_component_that_cannot_be_restarted_makes_the_server_unready() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def finish() -> None:
        return

    async with started_server() as server:
        good, bad = asyncio.create_task(finish()), asyncio.create_task(fail())
        kept = [require(good, name="good"), require(bad, name="bad")]
        await asyncio.wait([good, bad])
        await asyncio.sleep(0)
        assert failing_loops() == {"bad": "ValueError: broken"}
        assert await readiness(server) == 500
        kept.clear()


async def test_a_loop_that_is_stopped_or_returns_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    async def finish() -> None:
        return

    caplog.set_level(logging.INFO, "kubewright.background")
    stopped, finished = run_forever(wait, name="stopped"), run_forever(finish, name="finished")
    await asyncio.sleep(0)
    stopped.cancel()
    results: list[Any] = await asyncio.gather(stopped, finished, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1] is None
    assert not caplog.records
