"""Request bodies that are valid or nearly so, but expensive: the cost stays proportional to their size."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from kubewright.apiserver import Resource, Version
from kubewright.apiserver.http.messages import WarningRecorder
from kubewright.schema.duplicates import duplicate_fields, field_paths, merged_duplicates
from kubewright.schema.pruning import prune
from kubewright.schema.structural import Node

FIELDS = 120_000
"""With quadratic cost a test with this many fields would take minutes."""


@pytest.mark.parametrize("validation", ["Warn", "Strict", "Ignore"])
async def test_many_unknown_fields_are_removed_and_a_hundred_reported(talk, widget, base, validation):
    body = widget("a", spec={f"f{number}": 1 for number in range(FIELDS)})
    response = await talk.send("POST", f"{base}?fieldValidation={validation}", body)
    if validation == "Strict":
        assert response.status == 400
        assert json.loads(response.body)["message"].count("unknown field") == 100
    else:
        assert response.status == 201
        assert len(response.body) < 2000
        assert len(response.headers.get("Warning", [])) == (100 if validation == "Warn" else 0)


async def test_many_duplicate_fields_are_reported_up_to_a_hundred(talk, base):
    spec = ",".join(f'"f{number}":1,"f{number}":2' for number in range(FIELDS // 2))
    body = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{' + spec + "}}"
    response = await talk.send("POST", base, body.encode())
    assert response.status == 201
    assert len(response.headers["Warning"]) == 100
    assert response.headers["Warning"][0] == '299 - "duplicate field \\"spec.f0\\""'


def test_a_key_repeated_many_times_is_merged_without_copies():
    text = "{" + ",".join(f'"spec":{{"f{number}":{number}}}' for number in range(FIELDS)) + "}"
    merged = merged_duplicates(text)
    assert len(merged["spec"]) == FIELDS
    assert merged["spec"]["f7"] == 7


def test_paths_below_long_names_are_not_extended():
    name = "n" * 500_000
    leaves = ",".join(f'"f{number}":{{}}' for number in range(FIELDS))
    text = f'{{"a":1,"a":2,"{name}":{{"x":{{{leaves},"f0":1}}}}}}'
    assert duplicate_fields(text) == ["a", name]
    assert field_paths(text, {"a", "missing"}) == ["a"]
    schema = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": False}}
    schema["additionalProperties"]["properties"] = {"known": {"type": "object"}}
    value = {name: {f"f{number}": {} for number in range(FIELDS)}}
    unknown = prune(value, Node(schema))
    assert value == {name: value[name]}
    assert len(unknown) <= 10_000
    assert max(map(len, unknown), default=0) < 2_000


class LoopTurns:
    """Counts how often other tasks run, and the longest time between two turns."""

    def __init__(self):
        self.count = 0
        self.longest = 0.0

    async def _run(self):
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.count, self.longest, last = self.count + 1, max(self.longest, now - last), now

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exc):
        self._task.cancel()


@pytest.mark.parametrize("start", [b"", b"{"])
async def test_other_requests_are_served_while_long_yaml_is_decoded(talk, base, start):
    lines = b"".join(b"  f%d: %d\n" % (number, number) for number in range(100_000))
    head = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n"
    body = head + b"spec:\n" + lines
    if start:
        fields = b",".join(b"f%d: %d" % (number, number) for number in range(100_000))
        head = b"{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, "
        body = head + b"spec: {" + fields + b"}}"
    async with LoopTurns() as turns:
        response = await talk.send("POST", base, body, Content_Type="application/yaml")
    print(f"{len(body)} bytes of YAML: {turns.count} turns, longest {turns.longest * 1000:.0f} ms")
    assert response.status == 201
    assert turns.count >= 20


async def test_long_yaml_has_the_same_errors_as_short(talk, base):
    body = b"a: *nowhere\n" + b"# comment\n" * 10_000
    status, error = await talk("POST", base, body, Content_Type="application/yaml")
    assert status == 400
    assert "unknown anchor 'nowhere' referenced" in error["message"]
    body = (
        b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: a}\n"
        + b"# comment\n" * 10_000
    )
    applied = await talk.ok(
        "PATCH", f"{base}/a?fieldManager=m", body, Content_Type="application/apply-patch+yaml"
    )
    assert applied["spec"]["color"] == "a"


async def test_many_owner_references_and_managed_fields_cost_linear_time(talk, widget, base):
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": f"u{n}"} for n in range(8_000)]
    created = await talk.ok("POST", base, widget("a", metadata={"ownerReferences": owners + owners[:1]}))
    assert len(created["metadata"]["ownerReferences"]) == 8_000
    for owner in owners:
        owner["controller"] = True
    status, error = await talk("POST", base, widget("b", metadata={"ownerReferences": owners}))
    assert status == 422
    assert len(error["details"]["causes"]) == 1
    entries = [
        {
            "manager": f"m{number}",
            "operation": "Update",
            "apiVersion": "example.com/v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {f"f:x{number}": {}}},
        }
        for number in range(8_000)
    ]
    created = await talk.ok("POST", base, widget("c", metadata={"managedFields": entries}))
    managers = [entry["manager"] for entry in created["metadata"]["managedFields"]]
    assert len(managers) <= 11
    assert "ancient-changes" in managers


async def test_other_requests_are_served_while_openapi_documents_are_built(server, talk):
    for number in range(50):
        server.add(
            Resource(group=f"g{number}.io", kind="Thing", plural="things", versions=[Version(name="v1")])
        )
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    index = await talk.ok("GET", "/openapi/v3")
    counting.cancel()
    assert len(index["paths"]) >= 50
    assert turns >= 50


def test_warnings_are_recorded_once_and_in_order():
    recorded = WarningRecorder()
    for text in ("b", "a", "b"):
        recorded.add(text)
    assert list(recorded) == ["b", "a"]
    for number in range(FIELDS):
        recorded.add(f"w{number}")
    assert len(recorded) == WarningRecorder.LIMIT
