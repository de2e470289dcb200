"""The first version: toppings are a list of names, with repetitions."""

from __future__ import annotations

from typing import Annotated

from kubewright.api import (
    Atomic,
    Cel,
    CustomResource,
    Quantity,
    Spec,
    Status,
    WebhookConversion,
    field,
    resource,
)

DEFAULT_TOPPINGS = ("salami", "mozzarella", "tomato")


class PizzaSpec(Spec):
    """Desired state of a pizza."""

    toppings: Annotated[list[str], Atomic] = field(default_factory=lambda: list(DEFAULT_TOPPINGS))


class PizzaStatus(Status):
    """Observed state of a pizza."""

    cost: Quantity | None = None


@resource(
    group="restaurant.programming-kubernetes.info",
    version="v1alpha1",
    deprecation_warning="use v1beta1, which counts toppings",
    conversion=WebhookConversion(review_versions=("v1",)),
)
class Pizza(CustomResource[PizzaSpec, PizzaStatus]):
    """A pizza."""


class ToppingSpec(Spec):
    """Desired state of a topping."""

    cost: Annotated[Quantity, Cel("!string(self).startsWith('-')", message="cost must not be negative")]


@resource(group="restaurant.programming-kubernetes.info", version="v1alpha1", scope="Cluster")
class Topping(CustomResource[ToppingSpec, None]):
    """A topping."""
