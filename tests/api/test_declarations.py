from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.declaring.declarations import (
    Rbac,
    declarations_on,
    declares,
    has_status,
    is_resource,
    pluralize,
    resource,
    resource_info,
    webhook_path,
)
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.markers import Ge, Gt, Le, Lt, MarkerError, MultipleOf
from kubewright.api.meta import CustomResource
from kubewright.api.objects import Spec, Status


class ThingSpec(Spec):
    name: str


@resource(group="things.example.com", version="v1")
class Thing(CustomResource[ThingSpec, None]): ...


class Derived(Thing): ...


def test_resource_info() -> None:
    assert Thing.gvk == GroupVersionKind("things.example.com", "v1", "Thing")
    thing = Thing(spec=ThingSpec(name="a"))
    assert (thing.api_version, thing.kind) == ("things.example.com/v1", "Thing")
    info = resource_info(Thing)
    assert (info.plural, info.singular, info.list_kind, info.namespaced) == (
        "things",
        "thing",
        "ThingList",
        True,
    )
    assert str(info.gvr) == "things.example.com/v1, Resource=things"
    assert info.where.startswith(__file__)


def test_declaration_is_not_inherited() -> None:
    assert is_resource(Thing)
    assert not is_resource(Derived)
    with pytest.raises(TypeError, match="add @resource"):
        resource_info(Derived)


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("guestbook", "guestbooks"),
        ("policy", "policies"),
        ("gateway", "gateways"),
        ("ingress", "ingresses"),
        ("box", "boxes"),
        ("batch", "batches"),
        ("searchindex", "searchindices"),
        ("analysis", "analyses"),
        ("timeseries", "timeseries"),
        ("testquota", "testquotas"),
    ],
)
def test_plurals(noun: str, plural: str) -> None:
    assert pluralize(noun) == plural


def test_declares_attaches_declarations() -> None:
    one, two = Rbac(verbs=("get",)), Rbac(verbs=("list",))

    @declares(one)
    @declares(two)
    def reconcile() -> None: ...

    assert declarations_on(reconcile) == (two, one)
    assert one.where.startswith(__file__)
    with pytest.raises(TypeError, match="accepts Rbac"):
        declares("text")  # type: ignore[arg-type]


def test_paths_of_webhooks() -> None:
    gvk = GroupVersionKind("batch.tutorial.kubebuilder.io", "v1", "CronJob")
    assert webhook_path(gvk, mutating=True) == "/mutate-batch-tutorial-kubebuilder-io-v1-cronjob"
    assert webhook_path(gvk, mutating=False) == "/validate-batch-tutorial-kubebuilder-io-v1-cronjob"
    assert webhook_path(GroupVersionKind("", "v1", "Pod"), mutating=False) == "/validate--v1-pod"


def test_custom_resource_declares_spec_and_status() -> None:
    declare = resource(group="a.example.com", version="v1")
    with pytest.raises(TypeError, match=r"Vague does not declare .*CustomResource\[VagueSpec, VagueStatus"):

        @declare
        class Vague(CustomResource): ...  # type: ignore[type-arg]

    @declare
    class Explicit(CustomResource):  # type: ignore[type-arg]
        spec: Spec

    assert Explicit.gvk is not None


@pytest.mark.parametrize("marker", [Ge, Gt, Le, Lt, MultipleOf])
@pytest.mark.parametrize("value", ["3", None, True])
def test_bound_must_be_a_number(marker: Any, value: Any) -> None:
    with pytest.raises(MarkerError, match=rf"{marker.__name__}\({value!r}\): write a number"):
        marker(value)


def test_has_status() -> None:
    @resource(group="a.example.com", version="v1")
    class With(CustomResource[ThingSpec, Status]): ...

    @resource(group="a.example.com", version="v1", status=False)
    class Plain(CustomResource[ThingSpec, Status]): ...

    assert [has_status(each) for each in (With, Plain, Thing)] == [True, False, False]
