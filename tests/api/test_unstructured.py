"""Unstructured objects."""

from datetime import UTC, datetime

import pytest

from kubewright.api.encoding.codec import decode, encode
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import ManagedFieldsEntry
from kubewright.api.objects import Struct, base_of
from kubewright.api.unstructured import Unstructured

APP = GroupVersionKind("example.com", "v1", "App")


def test_properties() -> None:
    app = Unstructured.new(APP, "web", namespace="default")
    assert (app.api_version, app.kind, app.name, app.namespace, app.gvk) == (
        "example.com/v1",
        "App",
        "web",
        "default",
        APP,
    )
    assert (app.uid, app.resource_version, app.generate_name) == ("", "", "")
    app.name, app.uid = "other", "u"
    app.gvk = GroupVersionKind("", "v1", "Pod")
    app.labels = {"a": "b"}
    app.annotations = {"c": "d"}
    assert app.raw == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "other",
            "namespace": "default",
            "uid": "u",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
        },
    }
    assert app.labels is app["metadata"]["labels"]
    app.labels = None
    assert app.labels is None
    app.api_version, app.kind = "v2", "X"
    assert (app["apiVersion"], app["kind"]) == ("v2", "X")


def test_nested_access() -> None:
    app = Unstructured.new(APP)
    app.set_nested("spec", "template", "image", value="i")
    assert app.get_nested("spec", "template", "image") == "i"
    assert app.get_nested("spec", "nope", default=3) == 3
    assert app.delete_nested("spec", "template", "image")
    assert app["spec"] == {"template": {}}


def test_is_a_mapping() -> None:
    app = Unstructured()
    app["spec"] = {"a": 1}
    assert "spec" in app
    assert list(app) == ["spec"]
    assert len(app) == 1
    del app["spec"]
    assert app == {}
    assert app
    assert app != 3
    assert repr(app) == "Unstructured({})"


def test_metadata_view() -> None:
    app = Unstructured()
    assert app.metadata.name is None
    app.metadata.generate_name = "a-"
    app.metadata.creation_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    app.metadata.managed_fields = [ManagedFieldsEntry(manager="m", fields_v1={"f:spec": {}})]
    assert app.raw["metadata"] == {
        "generateName": "a-",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
    }
    assert app.metadata.creation_timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert (app.metadata.managed_fields or [])[0].manager == "m"
    app.metadata.generate_name = None
    app.metadata.generate_name = None
    assert "generateName" not in app.raw["metadata"]
    assert repr(app.metadata).startswith("ObjectMeta(creation_timestamp=")
    with pytest.raises(AttributeError, match="no field 'nope'"):
        _ = app.metadata.nope  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no field 'nope'"):
        app.metadata.nope = 1  # type: ignore[attr-defined]


def test_copies_keep_the_base_and_are_deep() -> None:
    data = b'{"kind":"App","spec":{"a":[1]}}'
    app = decode(data, Unstructured)
    copied = app.copy()
    assert copied == app
    copied["spec"]["a"].append(2)
    assert app.get_nested("spec", "a") == [1]
    assert base_of(copied) == data
    assert encode(app) == data


def test_lists() -> None:
    many = Unstructured({"kind": "AppList", "items": [{"kind": "App"}, {"kind": "App"}]})
    assert many.is_list
    assert [item.kind for item in many.items_of_list()] == ["App", "App"]
    assert not Unstructured({"kind": "App"}).is_list


class Holder(Struct):
    template: Unstructured | None = None


def test_unstructured_field() -> None:
    holder = decode(b'{"template":{"kind":"App"}}', Holder)
    assert holder.template is not None
    assert holder.template.kind == "App"
    assert encode(holder) == b'{"template":{"kind":"App"}}'
