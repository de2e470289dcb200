"""Owner references and finalizers, on typed and on unstructured objects."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap, Namespace
from kubewright.api.finalizers import (
    FinalizerError,
    add_finalizer,
    has_finalizer,
    is_deleting,
    remove_finalizer,
)
from kubewright.api.meta import MetaObject, ObjectMeta, OwnerReference
from kubewright.api.owners import (
    AlreadyOwnedError,
    OwnerError,
    controller_of,
    has_owner_reference,
    is_controlled_by,
    owner_reference,
    remove_owner_reference,
    set_controller_reference,
    set_owner_reference,
)
from kubewright.api.unstructured import Unstructured


def typed(namespace: str = "default") -> Any:
    return ConfigMap(metadata=ObjectMeta(name="child", namespace=namespace))


def untyped(namespace: str = "default") -> Any:
    return Unstructured(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "namespace": namespace}}
    )


def parent(name: str = "web", uid: str = "u1", namespace: str | None = "default") -> Deployment:
    return Deployment(metadata=ObjectMeta(name=name, uid=uid, namespace=namespace))


both = pytest.mark.parametrize("make", [typed, untyped])


@both
def test_controller_reference(make: Callable[[], Any]) -> None:
    child = make()
    set_controller_reference(parent(), child)
    set_controller_reference(parent(), child)
    assert child.metadata.owner_references == [
        OwnerReference(
            api_version="apps/v1",
            kind="Deployment",
            name="web",
            uid="u1",
            controller=True,
            block_owner_deletion=True,
        )
    ]
    assert is_controlled_by(child, parent())
    assert not is_controlled_by(child, parent(uid="other"))
    assert controller_of(child).name == "web"  # type: ignore[union-attr]
    with pytest.raises(
        AlreadyOwnedError, match="Object default/child is already owned by another Deployment controller web"
    ) as caught:
        set_controller_reference(parent("second", "u2"), child)
    assert caught.value.owner.uid == "u1"
    set_owner_reference(parent("second", "u2"), child)
    assert [owner.controller for owner in child.metadata.owner_references] == [True, None]
    assert has_owner_reference(child, parent("second"))
    assert remove_owner_reference(child, parent("second"))
    assert not remove_owner_reference(child, parent("second"))
    assert remove_owner_reference(child, parent())
    assert child.metadata.owner_references is None
    assert controller_of(child) is None


def test_recreated_owner_replaces_its_reference() -> None:
    child = typed()
    set_controller_reference(parent(uid="old"), child)
    set_controller_reference(parent(uid="new"), child, block_owner_deletion=False)
    (reference,) = child.metadata.owner_references
    assert (reference.uid, reference.block_owner_deletion) == ("new", False)


def test_namespaces() -> None:
    with pytest.raises(
        OwnerError, match="cross-namespace owner references are disallowed, owner's namespace default"
    ):
        set_controller_reference(parent(), typed("other"))
    with pytest.raises(OwnerError, match="cluster-scoped resource must not have a namespace-scoped owner"):
        set_owner_reference(parent(), Namespace(metadata=ObjectMeta(name="n")))
    cluster_wide = Namespace(metadata=ObjectMeta(name="n", uid="u"))
    child = typed()
    set_owner_reference(cluster_wide, child)
    assert has_owner_reference(child, cluster_wide)


def test_owner_requires_uid_and_kind() -> None:
    with pytest.raises(OwnerError, match="has no uid; create or read it first"):
        set_controller_reference(parent(uid=""), typed())
    with pytest.raises(OwnerError, match="MetaObject has no kind"):
        owner_reference(MetaObject(metadata=ObjectMeta(name="a", uid="b")))


@both
def test_finalizers(make: Callable[[], Any]) -> None:
    child = make()
    assert add_finalizer(child, "example.com/a")
    assert not add_finalizer(child, "example.com/a")
    assert add_finalizer(child, "example.com/b")
    assert has_finalizer(child, "example.com/a")
    assert remove_finalizer(child, "example.com/a")
    assert not remove_finalizer(child, "example.com/a")
    assert child.metadata.finalizers == ["example.com/b"]
    child.metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    assert is_deleting(child)
    assert not add_finalizer(child, "example.com/b")
    with pytest.raises(FinalizerError, match="'child' is being deleted"):
        add_finalizer(child, "example.com/c")
    assert remove_finalizer(child, "example.com/b")
    assert child.metadata.finalizers is None
