"""`SyncClient`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.api import CustomResource, NotFound, ObjectMeta, Spec, Status, resource
from kubewright.apiserver import APIServer
from kubewright.apiserver.in_process import InProcessTransport
from kubewright.apiserver.resources.typed import resource_of
from kubewright.client import Client, SyncClient, merge_patch
from kubewright.client.arguments import ConnectOptions
from kubewright.client.sync.event_loop_thread import EventLoopThread
from kubewright.storage import MemoryStorage

ROOT = Path(__file__).parents[2]


class NoteSpec(Spec):
    text: str = ""


class NoteStatus(Status):
    read: int | None = None


@resource(group="sync.example.com", version="v1", status=True)
class Note(CustomResource[NoteSpec, NoteStatus]):
    """A note."""


def note(name: str) -> Note:
    return Note(metadata=ObjectMeta(name=name), spec=NoteSpec(text="hello"))


@pytest.fixture
def client() -> Iterator[SyncClient]:
    background = EventLoopThread()

    async def start() -> APIServer:
        server = APIServer(MemoryStorage())
        server.add(resource_of(Note))
        await server.start()
        return server

    server = background.run(start())
    yield SyncClient(Client.from_transport(InProcessTransport(server)), background)
    background.run(server.stop(0))
    background.stop()


def test_sync_verbs(client: SyncClient) -> None:
    made = client.create(note("a"))
    made.spec.text = "changed"
    client.update(made)
    assert client.get(Note, "a").spec.text == "changed"
    with pytest.raises(NotFound):
        client.get(Note, "b")


def test_lists_and_watches_are_iterated(client: SyncClient) -> None:
    for name in ("a", "b"):
        client.create(note(name))
    assert [each.metadata.name for each in client.list(Note)] == ["a", "b"]
    assert len(client.list(Note)) == 2
    seen = []
    for event in client.watch(Note):
        seen.append(event.object.metadata.name)
        if len(seen) == 2:
            break
    assert seen == ["a", "b"]


def test_a_list_is_a_list(client: SyncClient) -> None:
    client.create(note("a"))
    notes = client.list(Note)
    assert (len(notes), notes[0].metadata.name, notes.resource_version != "") == (1, "a", True)
    assert repr(notes).startswith("[Note(")
    assert [each.metadata.name for each in client.iterate(Note, page_size=1)] == ["a"]
    assert client.get_or_none(Note, "b") is None


def test_a_local_port_is_open_within_the_block(client: SyncClient) -> None:
    with client.port_forward("web-0", 8080) as forward:
        assert (forward.port, forward.local_port > 0) == (8080, True)


def test_derived_clients_and_subresources_are_synchronous(client: SyncClient) -> None:
    inside = client.in_namespace("default").with_dry_run()
    assert isinstance(inside, SyncClient)
    inside.create(note("a"))
    assert client.list(Note) == []
    client.create(note("a"))
    assert client.subresource("status", Note, "a").get(Note).metadata.name == "a"
    assert client.run(client.async_client.mapper.resource_for(Note)).plural == "notes"


def test_connect_has_the_options_of_the_async_client() -> None:
    options = dict(inspect.signature(Client.connect).parameters)
    del options["kubeconfig"]
    assert set(ConnectOptions.__annotations__) == set(options)


def test_names_of_before_field_manager_are_accepted_with_a_warning(client: SyncClient) -> None:
    with pytest.warns(DeprecationWarning, match="the parameter field_owner is deprecated; use field_manager"):
        made = client.create(note("old"), field_owner="shop")  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="with_field_owner is deprecated; use with_field_manager"):
        derived = client.with_field_owner("shop")
    assert derived.async_client.options.field_manager == "shop"
    assert [each.manager for each in made.metadata.managed_fields or ()] == ["shop"]


def test_the_former_order_of_patch_is_accepted_with_a_warning(client: SyncClient) -> None:
    client.create(note("a"))
    former: Any = client.patch
    with pytest.warns(DeprecationWarning, match=r"use patch\(kind, name, patch\)") as caught:
        assert former(Note, merge_patch({"spec": {"text": "2"}}), name="a").spec.text == "2"
    assert caught[0].filename == __file__
    assert client.patch("notes", "a", merge_patch({"spec": {"text": "3"}}))["spec"] == {"text": "3"}


def test_the_blocking_clients_are_up_to_date() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "generate_sync_client.py"), "--check"]
    result = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
