"""The restaurant example behind a control plane, or behind a real kube-apiserver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from kubewright import Client, ObjectMeta
from kubewright.api.errors import Forbidden, Invalid
from kubewright.client import merge_patch
from kubewright.testing import TestServer, run_app
from restaurant import (
    GROUP,
    Pizza,
    PizzaSpec,
    PizzaSpecV1Alpha1,
    PizzaTopping,
    PizzaV1Alpha1,
    Topping,
    ToppingSpec,
    app,
)

from .kubectl import Kubectl, requires_kubectl

EXAMPLE = Path(__file__).parents[2] / "examples" / "restaurant"


@asynccontextmanager
async def open_restaurant(server: TestServer) -> AsyncIterator[Client]:
    client = server.client()
    async with run_app(app, client):
        for name, cost in (("mozzarella", 1.5), ("salami", 2.0), ("tomato", 0.5)):
            await client.create(Topping(metadata=ObjectMeta(name=name), spec=ToppingSpec(cost=cost)))
        yield client


def old_pizza(name: str, *toppings: str) -> PizzaV1Alpha1:
    spec = PizzaSpecV1Alpha1(toppings=list(toppings))
    return PizzaV1Alpha1(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def pizza(name: str, *toppings: PizzaTopping) -> Pizza:
    return Pizza(metadata=ObjectMeta(name=name, namespace="default"), spec=PizzaSpec(toppings=list(toppings)))


async def test_versions_defaults_validation_and_admission(cluster: TestServer) -> None:
    async with open_restaurant(cluster) as client:
        created = await client.create(old_pizza("double", "tomato", "salami", "tomato"))
        assert created.spec.toppings == ["tomato", "tomato", "salami"]
        new = await client.get(Pizza, "double", namespace="default")
        assert [(each.name, each.quantity) for each in new.spec.toppings] == [("tomato", 2), ("salami", 1)]
        empty = await client.create(old_pizza("empty"))
        assert empty.spec.toppings == ["salami", "mozzarella", "tomato"]
        zero = await client.create(pizza("zero", PizzaTopping(name="tomato", quantity=0)))
        assert zero.spec.toppings[0].quantity == 1
        with pytest.raises(
            Forbidden, match=rf'pizzas.{GROUP} "pineapple" is forbidden: unknown topping: fruit'
        ):
            await client.create(old_pizza("pineapple", "tomato", "fruit"))
        with pytest.raises(Forbidden, match="unknown topping: fruit"):
            patch = merge_patch({"spec": {"toppings": [{"name": "fruit"}]}})
            await client.patch(Pizza, "double", patch, namespace="default")
        wrong = pizza("wrong", PizzaTopping(name="tomato", quantity=-1), PizzaTopping(name="tomato"))
        with pytest.raises(Invalid) as error:
            await client.create(wrong)
        fields = [each["field"] for each in (error.value.details or {})["causes"]]
        assert fields == ["spec.toppings[0].quantity", "spec.toppings[1].name"]
        bill = await client.subresource("bill", Pizza, "double", namespace="default").get()
        assert bill["cost"] == 4 + 2 * 0.5 + 2
        async with client.watch(PizzaV1Alpha1, namespace="default") as watch:
            names = {(await anext(watch)).object.name for _ in range(3)}
        assert names == {"double", "empty", "zero"}


@requires_kubectl
async def test_kubectl(cluster: TestServer, tmp_path: Path) -> None:
    kubectl = Kubectl(cluster, tmp_path)
    async with open_restaurant(cluster):
        applied = await kubectl("apply", "--server-side", "-f", str(EXAMPLE / "sample.yaml"))
        assert applied.count("serverside-applied") == 2, applied
        again = await kubectl("apply", "--server-side", "-f", str(EXAMPLE / "sample.yaml"))
        assert again.count("serverside-applied") == 2, again
        table = await kubectl("get", "pizzas")
        assert table.splitlines()[0].split() == ["NAME", "TOPPINGS", "AGE"], table
        explained = await kubectl("explain", "pizza.spec.toppings")
        assert "Number of portions." in explained, explained
        shown = yaml.safe_load(await kubectl("get", "pizza", "margherita", "-o", "yaml"))
        assert shown["apiVersion"] == f"{GROUP}/v1beta1"
        assert shown["spec"]["toppings"][0] == {"name": "mozzarella", "quantity": 1}
        old = await kubectl(
            "get", f"pizzas.v1alpha1.{GROUP}", "margherita", "-o", "jsonpath={.spec.toppings}"
        )
        assert old == '["mozzarella","tomato"]'
        assert "deleted" in await kubectl("delete", "pizza", "--all")
