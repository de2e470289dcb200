"""The pizza restaurant: an aggregated API server with two versions of Pizza and a cluster-scoped Topping."""

from collections import Counter
from collections.abc import Iterable
from typing import Self

from kubewright import APIServerApp, Column, CustomResource, Denied, FieldError, Spec, Status, resource
from kubewright.api import Number
from kubewright.extension import ObjectReader

GROUP = "restaurant.programming-kubernetes.info"
DEFAULT_TOPPINGS = ("salami", "mozzarella", "tomato")
BASE_COST = 4.0


class ToppingSpec(Spec):
    """What a topping costs."""

    cost: Number = 0.0
    """Price of one portion."""


@resource(
    group=GROUP,
    version="v1alpha1",
    scope="Cluster",
    columns=(Column("Cost", ".spec.cost", "number"), Column("Age", ".metadata.creationTimestamp", "date")),
)
class Topping(CustomResource[ToppingSpec, None]):
    """A topping that pizzas can have."""


class PizzaTopping(Spec):
    """A topping of a pizza."""

    name: str
    """Name of a Topping."""
    quantity: int = 1
    """Number of portions."""


class PizzaSpec(Spec):
    """What is on a pizza."""

    toppings: list[PizzaTopping] = []
    """Toppings, each once; without any, the pizza has salami, mozzarella and tomato."""


class PizzaStatus(Status):
    """What a pizza costs."""

    cost: Number | None = None
    """Price of the pizza."""


@resource(
    group=GROUP,
    version="v1beta1",
    hub=True,
    columns=(
        Column("Toppings", ".spec.toppings[*].name"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class Pizza(CustomResource[PizzaSpec, PizzaStatus]):
    """A pizza."""


class PizzaSpecV1Alpha1(Spec):
    """What is on a pizza, in the older form."""

    toppings: list[str] = []
    """Names of Toppings; a name that is listed twice is a double portion."""


@resource(group=GROUP, version="v1alpha1", kind="Pizza")
class PizzaV1Alpha1(CustomResource[PizzaSpecV1Alpha1, PizzaStatus]):
    """A pizza."""

    def convert_to(self, hub: type[Pizza]) -> Pizza:
        """Count the names of toppings."""
        counts = Counter(self.spec.toppings)
        toppings = [PizzaTopping(name=name, quantity=quantity) for name, quantity in counts.items()]
        return hub(metadata=self.metadata, spec=PizzaSpec(toppings=toppings), status=self.status)

    @classmethod
    def convert_from(cls, pizza: Pizza) -> Self:
        """Repeat the name of a topping for each portion."""
        names = [each.name for each in pizza.spec.toppings for _ in range(each.quantity)]
        return cls(metadata=pizza.metadata, spec=PizzaSpecV1Alpha1(toppings=names), status=pizza.status)


app = APIServerApp("restaurant")
app.add(Topping)
app.add(Pizza, PizzaV1Alpha1)


@app.default(Pizza)
def set_defaults(pizza: Pizza) -> None:
    if not pizza.spec.toppings:
        pizza.spec.toppings = [PizzaTopping(name=name) for name in DEFAULT_TOPPINGS]
    for topping in pizza.spec.toppings:
        topping.quantity = topping.quantity or 1


@app.validate(Pizza)
def validate(pizza: Pizza) -> Iterable[FieldError]:
    seen: set[str] = set()
    for index, topping in enumerate(pizza.spec.toppings):
        path = f"spec.toppings[{index}]"
        if topping.quantity <= 0:
            yield FieldError.invalid(f"{path}.quantity", topping.quantity, "must be greater than 0")
        if not topping.name:
            yield FieldError.required(f"{path}.name")
        if topping.name in seen:
            yield FieldError.duplicate(f"{path}.name", topping.name)
        seen.add(topping.name)


@app.admit(Pizza, reads=(Topping,))
async def check_toppings(pizza: Pizza, objects: ObjectReader) -> None:
    for topping in pizza.spec.toppings:
        if not await objects.exists(Topping, topping.name):
            raise Denied(f"unknown topping: {topping.name}")


@app.subresource(Pizza, "bill", reads=(Topping,))
async def bill(pizza: Pizza, objects: ObjectReader) -> dict[str, object]:
    """Return what the pizza costs: `kubectl get --raw .../pizzas/margherita/bill`."""
    cost = BASE_COST
    for topping in pizza.spec.toppings:
        cost += (await objects.get(Topping, topping.name)).spec.cost * topping.quantity
    return {"kind": "Bill", "apiVersion": f"{GROUP}/v1beta1", "cost": cost}
