"""How an API server stops: no request fails because of it, apart from 503."""

from __future__ import annotations

import asyncio

import pytest

from kubewright import APIServerApp, Client, CustomResource, ObjectMeta, Spec, resource
from kubewright.api.errors import APIError
from kubewright.apiserver import APIServer
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.client.rest.retry_policy import RetryPolicy
from kubewright.extension import serve_app
from kubewright.extension.serving.runtime import run_app


class NoteSpec(Spec):
    text: str = ""


@resource(group="notes.example.com", version="v1")
class Note(CustomResource[NoteSpec, None]):
    """A note."""


def notes() -> APIServerApp:
    app = APIServerApp("notes")
    app.add(Note)
    return app


def note(name: str) -> Note:
    return Note(metadata=ObjectMeta(name=name, namespace="default"), spec=NoteSpec())


async def test_a_stopped_server_responds_with_503() -> None:
    async with serve_app(notes(), None) as running:
        await running.client().create(note("a"))
    path = "/apis/notes.example.com/v1/namespaces/default/notes/a"
    for method in ("GET", "DELETE"):
        response = await running.server.handle(HTTPRequest(method, path, user=SYSTEM))
        assert response.status == 503
        assert b"the server is shutting down" in response.body


async def test_requests_during_a_stop(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Clients with open connections get their response, 503, or a closed connection."""
    path = tmp_path_factory.mktemp("stop") / "kubeconfig"
    failures: list[Exception] = []

    async def write(client: Client, number: int) -> None:
        for count in range(10_000):
            try:
                await client.create(note(f"n{number}-{count}"))
            except Exception as error:
                failures.append(error)
                return

    async with serve_app(notes(), None) as running:
        running.https.write_kubeconfig(path)
        client = Client.connect(path, retries=RetryPolicy(retry_after_attempts=0, transient_attempts=0))
        writers = [asyncio.create_task(write(client, number)) for number in range(20)]
        async with asyncio.timeout(60):
            while len(await running.client().list(Note)) < 40:
                await asyncio.sleep(0)
    await asyncio.gather(*writers)
    await client.aclose()
    assert failures
    statuses = {each.status_code for each in failures if isinstance(each, APIError)}
    assert statuses <= {503}, failures


@pytest.mark.control_plane(controllers=False)
async def test_requests_are_served_during_the_shutdown_delay(client: Client) -> None:
    app, stop = notes(), asyncio.Event()
    app.settings.development = True
    app.settings.shutdown_delay = 600.0
    servers: list[APIServer] = []
    app.configure(servers.append)
    running = asyncio.create_task(run_app(app, client, stop))
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    await client.create(note("a"))
                    break
                except APIError:
                    await asyncio.sleep(0.05)
            stop.set()
            while not servers[0].draining:
                await asyncio.sleep(0)
        ready = await servers[0].handle(HTTPRequest("GET", "/readyz", user=SYSTEM))
        live = await servers[0].handle(HTTPRequest("GET", "/livez", user=SYSTEM))
        assert (ready.status, live.status) == (500, 200)
        assert (await client.get(Note, "a")).name == "a"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
