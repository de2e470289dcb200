"""The second version: toppings have a quantity."""

from __future__ import annotations

from typing import Annotated

from kubewright.api import CustomResource, Ge, Int32, ListMap, MinLen, Spec, Struct, resource

from .v1alpha1 import PizzaStatus


class PizzaTopping(Struct):
    """A topping and its quantity."""

    name: Annotated[str, MinLen(1)]
    quantity: Annotated[Int32, Ge(1)] = 1


class PizzaSpec(Spec):
    """Desired state of a pizza."""

    toppings: Annotated[list[PizzaTopping], ListMap("name")] | None = None


@resource(group="restaurant.programming-kubernetes.info", version="v1beta1", storage=True, hub=True)
class Pizza(CustomResource[PizzaSpec, PizzaStatus]):
    """A pizza."""
