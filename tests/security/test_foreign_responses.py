"""A server that responds to a write with another object: no verb of the client takes that as success."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.unstructured import Unstructured
from kubewright.cache import Cache, CachedClient
from kubewright.client import APIResponse, Client, UnexpectedObjectError, merge_patch
from kubewright.client.kind_types import metadata_of
from kubewright.client.verbs.write import WriteVerbs

GVK = GroupVersionKind("", "v1", "ConfigMap")
Change = Callable[[dict[str, Any]], Any]


class ForeignTransport:
    """The transport of a client; responses to writes of objects are changed while `change` is set."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.change: Change | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def send(self, method: str, *arguments: Any) -> APIResponse:
        response: APIResponse = await self._transport.send(method, *arguments)
        if self.change is None or method == "GET" or response.status >= 300:
            return response
        return response._replace(body=json.dumps(self.change(json.loads(response.body))).encode())


def _metadata(name: str, value: str) -> Change:
    return lambda obj: {**obj, "metadata": {**obj.get("metadata", {}), name: value}}


FOREIGN: dict[str, Change] = {
    "kind": lambda obj: {**obj, "kind": "Secret"},
    "version": lambda obj: {**obj, "apiVersion": "v2"},
    "no kind": lambda obj: {"metadata": obj.get("metadata")},
    "nothing": lambda obj: {},
    "a list": lambda obj: [obj],
    "a page": lambda obj: "<html>",
    "name": _metadata("name", "other"),
    "namespace": _metadata("namespace", "kube-system"),
    "no name": lambda obj: {"apiVersion": "v1", "kind": obj["kind"], "metadata": {}},
}
UPDATE_ONLY: dict[str, Change] = {"uid": _metadata("uid", "0f5ae1a6-0000-0000-0000-000000000000")}


def _object(name: str = "a") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"k": "v"})


async def _update(client: Client, obj: ConfigMap) -> Any:
    obj.data = {"k": "new"}
    return await client.update(obj)


async def _put(client: Client, obj: ConfigMap) -> Any:
    raw = {**(await client.get(GVK, "a", namespace="default")).raw, "data": {"k": "new"}}
    return await client.update(raw)


VERBS: dict[str, Callable[[Client, ConfigMap], Awaitable[Any]]] = {
    "create": lambda client, obj: client.create(_object("new")),
    "create unstructured": lambda client, obj: client.create(
        Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}})
    ),
    "update": _update,
    "put": _put,
    "patch": lambda client, obj: client.patch(
        ConfigMap, "a", merge_patch({"data": {"a": "b"}}), namespace="default"
    ),
    "patch metadata": lambda client, obj: client.patch(
        metadata_of(ConfigMap),
        "a",
        merge_patch({"metadata": {"labels": {"a": "b"}}}),
        namespace="default",
    ),
    "apply": lambda client, obj: client.apply(_object(), field_manager="test", force=True),
}


@pytest.mark.control_plane(controllers=False)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_write_whose_response_has_another_object_fails(client: Client, verb: str) -> None:
    transport = ForeignTransport(client.rest.transport)
    client.rest.transport = transport
    obj = await client.create(_object())
    changes = {**FOREIGN, **UPDATE_ONLY} if verb in ("update", "put") else FOREIGN
    for name, change in changes.items():
        transport.change = change
        with pytest.raises(UnexpectedObjectError, match="check which server responds"):
            await VERBS[verb](client, obj)
        transport.change = None
        for each in ("new", "n"):
            await client.delete(ConfigMap, each, namespace="default", missing_ok=True)
        obj = await client.get(ConfigMap, "a", namespace="default")
        assert (obj.name, obj.kind) == ("a", "ConfigMap"), name
    await VERBS[verb](client, obj)


@pytest.mark.control_plane(controllers=False)
async def test_a_deletion_is_confirmed_by_the_object_or_a_status(client: Client) -> None:
    transport = ForeignTransport(client.rest.transport)
    client.rest.transport = transport
    for name in ("name", "namespace"):
        await client.create(held := _object())
        held.metadata.finalizers = ["example.com/a"]
        await client.update(held)
        transport.change = FOREIGN[name]
        with pytest.raises(UnexpectedObjectError):
            await client.delete(held)
        transport.change = None
        await client.patch(held, merge_patch({"metadata": {"finalizers": None}}))
    await client.create(_object())
    await client.delete(ConfigMap, "a", namespace="default")


@pytest.mark.control_plane(controllers=False)
async def test_the_cache_does_not_store_a_foreign_object(client: Client) -> None:
    transport = ForeignTransport(client.rest.transport)
    client.rest.transport = transport
    async with Cache(client) as cache:
        cached = CachedClient.from_client(client, cache)
        await cached.create(_object())
        assert (await cached.get(ConfigMap, "a", namespace="default")).data == {"k": "v"}
        transport.change = lambda obj: {**_metadata("name", "other")(obj), "data": {"k": "foreign"}}
        with pytest.raises(UnexpectedObjectError):
            await cached.patch(ConfigMap, "a", merge_patch({"data": {"k": "new"}}), namespace="default")
        assert await cached.get_or_none(ConfigMap, "other", namespace="default") is None
        assert (await cached.get(ConfigMap, "a", namespace="default")).data != {"k": "foreign"}


def test_every_write_verb_is_tested() -> None:
    verbs = {name for name in vars(WriteVerbs) if not name.startswith("_")}
    assert verbs == {"create", "update", "update_status", "patch", "apply", "delete", "delete_all"}
