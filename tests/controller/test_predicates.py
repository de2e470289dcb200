"""Predicates and event handlers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.core.v1 import ConfigMap
from kubewright.api.encoding.codec import encode
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.cache import MemoryEntry, ObjectChange, ObjectKey
from kubewright.controller import (
    Predicate,
    Request,
    annotations_changed,
    created,
    deleted,
    deletion_started,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
    finalizers_changed,
    generation_changed,
    has_labels,
    in_namespaces,
    labels_changed,
    resource_version_changed,
    updated,
    where,
)

KEY = ObjectKey("shop", "a")


def entry(revision=1, **metadata):
    obj = ConfigMap(metadata=ObjectMeta(name="a", namespace="shop", **metadata))
    return MemoryEntry(encode(obj), revision, "uid")


@pytest.mark.parametrize(
    ("predicate", "field", "before", "after"),
    [
        (generation_changed, "generation", 1, 2),
        (labels_changed, "labels", {"a": "1"}, {"a": "2"}),
        (annotations_changed, "annotations", None, {"a": "2"}),
        (finalizers_changed, "finalizers", ["x/y"], None),
        (deletion_started, "deletion_timestamp", None, "2030-01-01T00:00:00Z"),
    ],
)
def test_a_field_has_changed(predicate, field, before, after):
    old, new = entry(**{field: before}), entry(2, **{field: after})
    assert predicate(ObjectChange(KEY, old, new))
    assert not predicate(ObjectChange(KEY, old, old))
    assert not predicate(ObjectChange(KEY, new, entry(3, **{field: after})))
    assert predicate(ObjectChange(KEY, None, new))
    assert predicate(ObjectChange(KEY, old, None))


def test_absent_and_empty_are_the_same():
    assert not labels_changed(ObjectChange(KEY, entry(labels={}), entry(2)))


def test_resync_is_not_a_change():
    old = entry(5)
    assert not resource_version_changed(ObjectChange(KEY, old, old))
    assert resource_version_changed(ObjectChange(KEY, old, entry(6)))


def test_event_types():
    changes = [
        ObjectChange(KEY, None, entry()),
        ObjectChange(KEY, entry(), entry(2)),
        ObjectChange(KEY, entry(), None),
    ]
    for wanted, predicate in enumerate((created, updated, deleted)):
        assert [predicate(change) for change in changes] == [number == wanted for number in range(3)]


def test_labels_namespaces_and_functions():
    change = ObjectChange(KEY, None, entry(labels={"tier": "front"}))
    assert has_labels("tier in (front, back)")(change)
    assert not has_labels("tier=back")(change)
    assert has_labels("tier=front")(ObjectChange(KEY, entry(labels={"tier": "front"}), None))
    assert in_namespaces("shop", "other")(change)
    assert not in_namespaces("other")(change)
    assert where(ConfigMap, lambda config: config.metadata.name == "a")(change)


@given(st.booleans(), st.booleans())
def test_predicates_combine(first, second):
    one, other = Predicate(lambda change: first, "one"), Predicate(lambda change: second, "other")
    change = ObjectChange(KEY, None, entry())
    assert (one & other)(change) == (first and second)
    assert (one | other)(change) == (first or second)
    assert (~one)(change) == (not first)
    assert repr(~(one & other) | one) == "Predicate((~(one & other) | one))"


def owned_by(*names, kind="Shop", controller=True, version="v1"):
    return entry(
        owner_references=[
            OwnerReference(
                api_version=f"example.com/{version}", kind=kind, name=name, uid=name, controller=controller
            )
            for name in names
        ]
    )


def test_the_object_itself():
    assert list(enqueue_object(ObjectChange(KEY, None, entry()))) == [Request("shop", "a")]


def test_owners_in_any_version_and_of_both_sides():
    shop = GroupVersionKind("example.com", "v1", "Shop")
    handler = enqueue_owner(shop)
    change = ObjectChange(KEY, owned_by("x"), owned_by("y", version="v2"))
    assert list(handler(change)) == [Request("shop", "x"), Request("shop", "y")]
    assert list(handler(ObjectChange(KEY, None, owned_by("x", kind="Other")))) == []
    assert list(handler(ObjectChange(KEY, None, owned_by("x", controller=False)))) == []
    any_owner = enqueue_owner(shop, controller_only=False)
    assert list(any_owner(ObjectChange(KEY, None, owned_by("x", "y", controller=False)))) == [
        Request("shop", "x"),
        Request("shop", "y"),
    ]
    assert list(enqueue_owner(shop, namespaced=False)(ObjectChange(KEY, None, owned_by("x")))) == [
        Request("", "x")
    ]


def test_mapping_is_called_once_for_a_resync():
    asked = []
    handler = enqueue_mapped(lambda entry: entry.revision, lambda revision: asked.append(revision) or ["key"])
    old = entry(1)
    assert list(handler(ObjectChange(KEY, old, old))) == ["key"]
    assert list(handler(ObjectChange(KEY, old, entry(2)))) == ["key"]
    assert asked == [1, 1, 2]
