"""The store and its indexes, checked against a scan."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubewright.api import ObjectMeta, Unstructured
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.encoding.codec import ObjectHeader, decoder
from kubewright.cache.stores.indexes import by_field, by_function, by_label, by_owner
from kubewright.cache.stores.store import (
    CacheEntry,
    MemoryEntry,
    ObjectKey,
    Store,
    metadata_only_bytes,
    strip_managed_fields,
)

_read_header = decoder(ObjectHeader).decode


def entry(obj: dict[str, Any], revision: int = 1) -> CacheEntry:
    return MemoryEntry(json.dumps(obj).encode(), revision, "uid")


keys = st.builds(ObjectKey, st.sampled_from(["", "a", "b"]), st.sampled_from(["x", "y", "z"]))
values = st.lists(st.sampled_from(["red", "green", "blue"]), max_size=3)


@given(st.lists(st.tuples(keys, st.none() | values), max_size=40))
def test_index_and_scan_return_the_same(changes: list[tuple[ObjectKey, list[str] | None]]) -> None:
    store = Store()
    index = by_function("colours", Unstructured, lambda each: each["colours"])
    store.add_index(index.name, index.indexer)
    model: dict[ObjectKey, list[str]] = {}
    for key, colours in changes:
        if colours is None:
            assert (store.pop(key) is None) == (model.pop(key, None) is None)
        else:
            store.put(key, entry({"colours": colours}))
            model[key] = colours
    assert dict(store.entries()).keys() == model.keys()
    assert len(store) == len(model)
    assert store.bytes == sum(len(json.dumps({"colours": each})) for each in model.values())
    assert set(store.index_values("colours")) == {each for colours in model.values() for each in colours}
    for colour in ("red", "green", "blue"):
        for namespace in (None, "", "a"):
            wanted = {
                key
                for key, colours in model.items()
                if colour in colours and (namespace is None or key.namespace == namespace)
            }
            assert {key for key, _ in store.indexed("colours", colour, namespace)} == wanted
    late = Store()
    for key, colours in model.items():
        late.put(key, entry({"colours": colours}))
    late.add_index(index.name, index.indexer)
    assert late._indexes == {name: dict(found) for name, found in store._indexes.items()}


def test_field_index_values_match_server_format() -> None:
    def found(path: str, obj: dict[str, Any]) -> list[str]:
        return list(by_field(path).indexer(entry(obj)))

    assert found("spec.nodeName", {"spec": {"nodeName": "n"}}) == ["n"]
    assert found(".spec.replicas", {"spec": {"replicas": 3}}) == ["3"]
    assert found("spec.paused", {"spec": {"paused": True}}) == ["true"]
    assert found("spec.nodeName", {"spec": {}}) == [""]
    assert found("spec.nodeName", {}) == [""]
    assert found("spec.nodeName", {"spec": None}) == [""]
    assert found("spec.nodeName", {"spec": "text"}) == []
    assert found("spec.nodeName", {"spec": {"nodeName": ["a"]}}) == []


def test_labels_and_owners() -> None:
    obj = {"metadata": {"labels": {"app": "web"}, "ownerReferences": [{"uid": "1"}, {"uid": "2"}]}}
    assert list(by_label("app").indexer(entry(obj))) == ["web"]
    assert list(by_label("none").indexer(entry(obj))) == []
    assert list(by_owner().indexer(entry(obj))) == ["1", "2"]
    assert list(by_owner().indexer(entry({"metadata": {}}))) == []


def test_failing_index_function_affects_only_its_index() -> None:
    store = Store()
    index = by_function("broken", ConfigMap, lambda each: each.metadata.labels["app"])  # type: ignore[index]
    store.add_index(index.name, index.indexer)
    store.put(ObjectKey("", "x"), entry({"metadata": {"name": "x"}}))
    assert store.get(ObjectKey("", "x")) is not None
    assert store.index_values("broken") == []


def test_strip_managed_fields() -> None:
    managed = [{"manager": "m", "fieldsV1": {"f:spec": {'f:"odd, }]"': {}}}}]
    for metadata in (
        {"name": "a", "managedFields": managed},
        {"managedFields": managed, "name": "a"},
        {"managedFields": managed},
        {"name": "a"},
    ):
        obj = {"metadata": metadata, "spec": {"managedFields": "kept"}}
        for separators in ((",", ":"), (", ", ": ")):
            raw = json.dumps(obj, separators=separators).encode()
            kept = json.loads(strip_managed_fields(raw, _read_header(raw)))
            wanted = {name: value for name, value in metadata.items() if name != "managedFields"}
            assert kept == {"metadata": wanted, "spec": {"managedFields": "kept"}}


def test_metadata_only_cache() -> None:
    made = ConfigMap(metadata=ObjectMeta(name="a", labels={"x": "y"}), data={"big": "x" * 100})
    from kubewright.api.encoding.codec import encode

    reduced = json.loads(metadata_only_bytes(encode(made)))
    assert reduced["metadata"] == {"name": "a", "labels": {"x": "y"}}
    assert set(reduced) == {"apiVersion", "kind", "metadata"}
