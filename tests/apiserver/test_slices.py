"""Long bodies and responses are processed in slices: other tasks run between them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any, TypeVar

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.apiserver import APIServer, Resource, Version
from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.apiserver.encoding.negotiation import to_yaml
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.apiserver.encoding.yaml import decode_long_yaml, load_yaml
from kubewright.apiserver.encoding.yaml_events import EVENTS_PER_SLICE
from kubewright.apiserver.encoding.yaml_output import yaml_in_slices
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.openapi.service import encode_in_slices
from kubewright.apiserver.resources.strategy import Strategy
from kubewright.apiserver.rest import scope, store, writer
from kubewright.apiserver.rest.verbs import patch
from kubewright.apiserver.slices import run_in_slices, run_in_worker
from kubewright.controlplane import ControlPlane
from kubewright.storage.memory import MemoryStorage

T = TypeVar("T")
MAPS = "/api/v1/namespaces/default/configmaps"


async def turns_during(work: Awaitable[T]) -> tuple[T, int]:
    """Return the result of `work` and how many turns another task had meanwhile."""
    turns, done = 0, False

    async def count() -> None:
        nonlocal turns
        while not done:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    try:
        return await work, turns
    finally:
        done = True
        await counting


def long_map(keys: int) -> str:
    return "".join(f"key-{number}: value-{number}\n" for number in range(keys))


async def test_long_yaml_is_decoded_in_slices() -> None:
    keys = 10 * EVENTS_PER_SLICE
    decoded, turns = await turns_during(decode_long_yaml(long_map(keys).encode()))
    document, duplicates = load_yaml(decoded)
    assert (len(document), duplicates) == (keys, [])
    assert turns >= 2 * keys // EVENTS_PER_SLICE - 1


scalars = st.sampled_from(
    [
        "~",
        "null",
        "yes",
        "off",
        "017",
        "0x1F",
        "1_000",
        "1e3",
        ".5",
        "-3",
        "2026-01-01",
        "<",
        "a b",
        "'1'",
        '"y"',
        "''",
    ]
)
keys = st.sampled_from(["a", "b", "yes", "017", "1.0", "'x'", "no", '"~"'])


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value) + "}"
    return str(value)


documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(keys, inner), max_size=4).map(tuple),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.lists(documents, min_size=1, max_size=5))
def test_slices_decode_what_the_composer_decodes(items: list[Any]) -> None:
    text = "".join(f"- {_flow(item)}\n" for item in items)
    padded = (text + "# " + "x" * 5000).encode()
    assert load_yaml(asyncio.run(decode_long_yaml(padded))) == load_yaml(padded)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: 1}\nc: *x\nd: {<<: *x}\n",
        "a: !!str 1\n",
        "? [a]\n: b\n",
        "~: b\n",
        "a: b\na: c\n",
        "--- \n...\n",
        "a: [1, 2\n",
        "a: b: c\n",
        "\ta: b\n",
        "[" * 300 + "]" * 300,
    ],
)
async def test_other_documents_and_errors(text: str) -> None:
    """Documents that are not decoded in slices have the same result, and errors the same message."""

    def outcome(data: bytes) -> Any:
        try:
            return load_yaml(data)
        except yaml.YAMLError as error:
            return str(error)

    data = (text + "\n# " + "x" * 5000).encode()
    assert outcome(await decode_long_yaml(data)) == outcome(data)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


@settings(max_examples=50)
@given(values)
def test_yaml_in_slices_is_the_same_text(value: Any) -> None:
    assert asyncio.run(run_in_slices(yaml_in_slices(value))) == to_yaml(value)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), values, max_size=5))
def test_json_in_slices_is_the_same_document(document: dict[str, Any]) -> None:
    assert json.loads(asyncio.run(run_in_slices(encode_in_slices(document)))) == document


@pytest.fixture
async def plane() -> Any:
    async with ControlPlane(port=None, controllers=False) as made:
        for number in range(100):
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"m{number}"},
                "data": {f"key-{key}": "value" for key in range(20)},
            }
            await made.server.handle(HTTPRequest("POST", MAPS, body=json.dumps(body).encode(), user=SYSTEM))
        yield made


async def get(plane: ControlPlane, path: str, **headers: str) -> bytes:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = await plane.server.handle(HTTPRequest("GET", path, headers=names, user=SYSTEM))
    assert response.status == 200
    return response.body


async def test_lists_are_encoded_in_slices(plane: ControlPlane) -> None:
    expected = json.loads(await get(plane, MAPS))
    assert len(expected["items"]) >= 100
    body, turns = await turns_during(get(plane, MAPS, Accept="application/yaml"))
    assert body == to_yaml(expected)
    assert turns >= 5
    body = await get(plane, MAPS, User_Agent="curl/8")
    assert body.decode() == json.dumps(expected, indent=2)
    media = "application/vnd.kubernetes.protobuf"
    body, turns = await turns_during(get(plane, MAPS, Accept=media))
    assert body == builtin_codec().encode(expected)
    assert turns >= 5


async def test_openapi_documents_are_built_in_slices(plane: ControlPlane) -> None:
    _, turns = await turns_during(get(plane, "/openapi/v3/apis/apps/v1"))
    assert turns >= 5
    first, turns = await turns_during(get(plane, "/openapi/v2"))
    assert turns >= 50
    second, turns = await turns_during(get(plane, "/openapi/v2"))
    assert first == second
    assert turns <= 2, "documents are cached"


POD = "/api/v1/namespaces/default/pods"


def long_pod(name: str, **container: Any) -> dict[str, Any]:
    env = [{"name": f"E{number}", "value": "x" * 30} for number in range(3000)]
    spec = {"containers": [{"name": "c", "image": "i", "env": env, **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def request(method: str, path: str, body: Any, media: str = "application/json") -> HTTPRequest:
    query = "fieldManager=m" if "apply" in media else ""
    return HTTPRequest(
        method,
        path,
        query=query,
        headers={"Content-Type": media},
        body=json.dumps(body).encode(),
        user=SYSTEM,
    )


async def written_pods() -> list[Any]:
    """Return status, body and warnings of writes of long pods, without what differs between servers."""
    found: list[Any] = []
    async with ControlPlane(
        port=None, controllers=False, disable_admission_plugins=["ServiceAccount"]
    ) as plane:
        apply = "application/apply-patch+yaml"
        for sent in (
            request("POST", POD, long_pod("a")),
            request("POST", POD, long_pod("b", imagePullPolicy="Sometimes")),
            request("POST", POD, long_pod("b", unknown=1)),
            request("PUT", f"{POD}/a", long_pod("a", image="j")),
            request("PATCH", f"{POD}/c", long_pod("c"), apply),
            request("PATCH", f"{POD}/c", long_pod("c", image="j"), apply),
            request(
                "PATCH", f"{POD}/c", {"metadata": {"labels": {"x": "y"}}}, "application/merge-patch+json"
            ),
        ):
            response = await plane.server.handle(sent)
            body = json.loads(response.body)
            for field in ("uid", "creationTimestamp", "resourceVersion"):
                body["metadata"].pop(field, None)
            for entry in body["metadata"].get("managedFields") or ():
                entry.pop("time")
            for status in (body.get("status") or {},) if isinstance(body.get("status"), dict) else ():
                status.pop("startTime", None)
            found.append((response.status, body, list(sent.warnings)))
    return found


async def test_long_objects_are_processed_as_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    for module in (scope, store, writer, patch):

        async def count(function: Any) -> Any:
            calls.append(function)
            return await run_in_worker(function)

        monkeypatch.setattr(module, "run_in_worker", count)
    in_worker = await written_pods()
    assert len(calls) > 20
    monkeypatch.setattr(store, "LONG_OBJECT", 1 << 30)
    calls.clear()
    on_loop = await written_pods()
    assert not calls
    assert in_worker == on_loop
    assert [status for status, _, _ in on_loop] == [201, 422, 201, 200, 201, 200, 200]


async def test_other_tasks_run_while_a_long_object_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step in the worker thread waits until the event loop has had a turn meanwhile."""
    turned: list[bool] = []
    for module in (scope, store, writer, patch):

        async def run_after_a_turn(function: Any) -> Any:
            turn = threading.Event()
            asyncio.get_running_loop().call_soon(turn.set)

            def wait_and_call() -> Any:
                turned.append(turn.wait(60))
                return function()

            return await run_in_worker(wait_and_call)

        monkeypatch.setattr(module, "run_in_worker", run_after_a_turn)
    async with ControlPlane(
        port=None, controllers=False, disable_admission_plugins=["ServiceAccount"]
    ) as plane:
        await plane.server.handle(request("POST", POD, long_pod("first")))
        for sent in (
            request("POST", POD, long_pod("a")),
            request("PATCH", f"{POD}/b", long_pod("b"), "application/apply-patch+yaml"),
        ):
            turned.clear()
            response = await plane.server.handle(sent)
            assert response.status == 201
            assert len(turned) > 3
            assert all(turned)


async def test_the_worker_runs_functions_in_the_context_of_the_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("set")
    assert await run_in_worker(variable.get) == "set"
    assert await run_in_worker(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        await run_in_worker(lambda: 1 // 0)


@pytest.mark.parametrize("declares", [True, False])
async def test_hooks_of_other_strategies_stay_on_the_event_loop(declares: bool) -> None:
    threads: list[threading.Thread] = []

    class Recording(Strategy):
        runs_in_worker = declares

        def validate(self, op: Any, obj: Any) -> Any:
            threads.append(threading.current_thread())
            return ()

    server = APIServer(MemoryStorage())
    resource = Resource(
        group="example.com",
        kind="Widget",
        plural="widgets",
        versions=[Version(name="v1")],
        strategy=Recording(),
    )
    server.add(resource)
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "text": "x" * 200_000,
    }
    async with server:
        path = "/apis/example.com/v1/namespaces/default/widgets"
        response = await server.handle(request("POST", path, body))
    assert response.status == 201
    assert (threads[0] is threading.main_thread()) is not declares


async def test_long_and_short_objects_in_parallel() -> None:
    async with ControlPlane(
        port=None, controllers=False, disable_admission_plugins=["ServiceAccount"]
    ) as plane:
        short = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}

        async def write_short(number: int) -> None:
            body = {**short, "metadata": {"name": f"m{number}"}}
            response = await plane.server.handle(request("POST", MAPS, body))
            assert json.loads(response.body)["data"] == {"a": "b"}

        async def write_long(number: int) -> None:
            sent = long_pod(f"p{number}")
            response = await plane.server.handle(request("POST", POD, sent))
            written = json.loads(response.body)["spec"]["containers"][0]["env"]
            assert written == sent["spec"]["containers"][0]["env"]

        await asyncio.gather(*map(write_long, range(6)), *map(write_short, range(100)))
