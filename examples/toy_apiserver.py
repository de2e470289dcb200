"""A custom API server: one kind, two versions, one subresource of its own.

python examples/toy_apiserver.py
kubectl --kubeconfig toy.kubeconfig get pizzas
"""

import asyncio
from pathlib import Path
from typing import Self

from kubewright.api.declare import Column, resource
from kubewright.api.meta import CustomResource
from kubewright.api.model import Spec, Status
from kubewright.apiserver import APIServer, Subresource, SubresourceRequest, resource_of, serve
from kubewright.apiserver.http import run
from kubewright.storage.memory import MemoryStorage


class Topping(Spec):
    """What goes on it, and how often."""

    name: str
    quantity: int = 1


class PizzaSpec(Spec):
    """Toppings with quantities."""

    toppings: list[Topping] = []


class OldPizzaSpec(Spec):
    """Toppings by name."""

    toppings: list[str] = []


@resource(
    group="toy.example.com", version="v1", columns=[Column("Toppings", ".spec.toppings[*].name")], hub=True
)
class Pizza(CustomResource[PizzaSpec, Status]):
    """A pizza."""


@resource(group="toy.example.com", version="v1alpha1", kind="Pizza")
class OldPizza(CustomResource[OldPizzaSpec, Status]):
    """A pizza, when toppings were just names."""

    def convert_to(self, hub: type[Pizza]) -> Pizza:
        """Count names."""
        names = dict.fromkeys(self.spec.toppings)
        toppings = [Topping(name=name, quantity=self.spec.toppings.count(name)) for name in names]
        return hub(metadata=self.metadata, spec=PizzaSpec(toppings=toppings))

    @classmethod
    def convert_from(cls, pizza: Pizza) -> Self:
        """Repeat names."""
        names = [topping.name for topping in pizza.spec.toppings for _ in range(topping.quantity)]
        return cls(metadata=pizza.metadata, spec=OldPizzaSpec(toppings=names))


async def bill(asked: SubresourceRequest) -> dict[str, object]:
    """GET .../pizzas/<name>/bill"""
    pizza = await asked.get()
    pieces = sum(topping["quantity"] for topping in pizza["spec"].get("toppings", ()))
    return {
        "kind": "Bill",
        "apiVersion": "toy.example.com/v1",
        "metadata": {"name": asked.name},
        "cost": 4 + pieces,
    }


def make_server() -> APIServer:
    server = APIServer(MemoryStorage())
    server.add(resource_of(Pizza, OldPizza, subresources={"bill": Subresource(handler=bill)}))
    return server


async def main() -> None:
    async with serve(make_server(), port=6444) as front:
        front.write_kubeconfig(Path("toy.kubeconfig"))
        print(f"serving on {front.url}; try: kubectl --kubeconfig toy.kubeconfig get pizzas")
        await asyncio.Event().wait()


if __name__ == "__main__":
    run(main)
