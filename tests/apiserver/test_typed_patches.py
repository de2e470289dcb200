"""Apply and strategic merge patches of resources that Python classes declare."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

from kubewright.api import CustomResource, Spec, resource
from kubewright.api.markers import ListMap, ListSet
from kubewright.apiserver import APIServer, Strategy, resource_of
from kubewright.storage import MemoryStorage

PATH = "/apis/pizza.example.com/v1/namespaces/default/pizzas"


class Topping(Spec):
    name: str
    amount: int = 1


class PizzaSpec(Spec):
    size: int | None = None
    toppings: Annotated[list[Topping] | None, ListMap("name")] = None
    tags: Annotated[list[str] | None, ListSet] = None
    steps: list[str] | None = None


@resource(group="pizza.example.com", version="v1", storage=True)
class Pizza(CustomResource[PizzaSpec, None]):
    """A pizza."""


class Recorder(Strategy):
    """Records the specs that the hooks receive."""

    def __init__(self) -> None:
        self.specs: list[Any] = []

    def prepare_for_create(self, op: Any, obj: dict[str, Any]) -> None:
        self.specs.append(obj["spec"])

    def prepare_for_update(self, op: Any, obj: dict[str, Any], old: dict[str, Any]) -> None:
        self.specs.append(obj["spec"])


@pytest.fixture
def hooks() -> Recorder:
    return Recorder()


@pytest.fixture
async def pizzas(talk_to, hooks) -> AsyncIterator[Any]:
    server = APIServer(MemoryStorage())
    server.add(resource_of(Pizza, strategy=hooks))
    async with server:
        yield talk_to(server)


def pizza(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "pizza.example.com/v1", "kind": "Pizza", "metadata": {"name": "a"}, "spec": spec}


async def test_apply_of_an_empty_spec(pizzas, hooks):
    """Removing all fields leaves an empty spec; hooks never receive `None`."""

    async def apply(**spec: Any) -> Any:
        return await pizzas.ok(
            "PATCH", f"{PATH}/a?fieldManager=test", pizza(**spec), Content_Type="application/apply-patch+yaml"
        )

    await apply()
    await apply(size=3)
    assert (await apply())["spec"] == {}
    assert hooks.specs == [{}, {"size": 3}, {}]
    await apply(toppings=[{"name": "ham"}])
    assert (await apply(toppings=[]))["spec"] == {"toppings": []}


async def strategic(pizzas: Any, patch: Any) -> Any:
    media = "application/strategic-merge-patch+json"
    return await pizzas.ok("PATCH", f"{PATH}/a", patch, Content_Type=media)


async def test_strategic_merge_patch_merges_list_maps_by_key(pizzas):
    toppings = [{"name": "ham", "amount": 1}, {"name": "corn", "amount": 2}]
    await pizzas.ok("POST", PATH, pizza(toppings=toppings, tags=["hot"], steps=["roll"]))
    changed = [{"name": "corn", "amount": 5}, {"name": "ham", "$patch": "delete"}, {"name": "olives"}]
    patch = {"spec": {"toppings": changed, "tags": ["new"], "steps": ["bake"]}}
    patched = (await strategic(pizzas, patch))["spec"]
    assert sorted(patched["toppings"], key=lambda each: each["name"]) == [
        {"name": "corn", "amount": 5},
        {"name": "olives", "amount": 1},
    ]
    assert sorted(patched["tags"]) == ["hot", "new"]
    assert patched["steps"] == ["bake"], "a list without a marker is replaced"


async def test_strategic_merge_patch_merges_finalizers_and_owners(pizzas):
    def owner(uid: str, **more: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, **more}

    body = pizza()
    body["metadata"] |= {"finalizers": ["example.com/a"], "ownerReferences": [owner("1"), owner("2")]}
    await pizzas.ok("POST", PATH, body)
    changes = {
        "finalizers": ["example.com/b"],
        "ownerReferences": [{"uid": "2", "controller": True}],
        "labels": {"x": "y"},
    }
    metadata = (await strategic(pizzas, {"metadata": changes}))["metadata"]
    assert sorted(metadata["finalizers"]) == ["example.com/a", "example.com/b"]
    assert metadata["ownerReferences"] == [owner("1"), owner("2", controller=True)]
    assert metadata["labels"] == {"x": "y"}
