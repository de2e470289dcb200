"""hypothesis strategies for objects of a kind."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from kubewright import CustomResource, Spec, resource
from kubewright.api import ListMap
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.markers import Cel, Ge, Immutable, Le, MaxLen, MinLen, Pattern, mark
from kubewright.manager.operators.installation import install_definitions
from kubewright.testing import fake_time, from_kind, start_test_server, updates_of


class Port(Spec):
    name: Annotated[str, MinLen(1), MaxLen(15)]
    number: Annotated[int, Ge(1), Le(65535)] = 80


@mark(Cel("self.min <= self.max", message="min is above max"))
class ScalerSpec(Spec):
    min: Annotated[int, Ge(0), Le(20)]
    max: Annotated[int, Ge(1), Le(20)]
    mode: Annotated[Literal["Fast", "Slow"], Immutable]
    image: Annotated[str, Pattern("^[a-z]+:[0-9]+$"), MaxLen(30)] | None = None
    ports: Annotated[list[Port], ListMap("name")] | None = None
    labels: dict[str, str] | None = None


@resource(group="strategies.example.com", version="v1")
class Scaler(CustomResource[ScalerSpec, None]):
    """A scaler."""


def test_the_api_server_accepts_every_generated_object() -> None:
    scalers: list[Scaler] = []

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(from_kind(Scaler))
    def collect(scaler: Scaler) -> None:
        assert scaler.spec.min <= scaler.spec.max
        scalers.append(scaler)

    collect()

    async def scenario() -> None:
        async with start_test_server("in-process", controllers=False) as server:
            client = server.client()
            await install_definitions(client, [Scaler])
            for number, scaler in enumerate(scalers):
                scaler.metadata.name = f"scaler-{number}"
                await client.create(scaler)

    fake_time(scenario())
    assert len(scalers) >= 60
    assert any(scaler.spec.ports for scaler in scalers)
    assert any(scaler.spec.image for scaler in scalers)


@settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(updates_of(Scaler, name="web", namespace="shop"))
def test_updates_follow_transition_rules(update: tuple[Scaler, Scaler]) -> None:
    before, after = update
    assert before.spec.mode == after.spec.mode
    assert (before.metadata.name, after.metadata.namespace) == ("web", "shop")


@settings(max_examples=10, deadline=None, database=None)
@given(from_kind(Scaler, fields={"spec.image": st.just("nginx:1"), "spec.max": st.just(20)}))
def test_single_fields_have_their_own_strategy(scaler: Scaler) -> None:
    assert scaler.spec.image in (None, "nginx:1")
    assert scaler.spec.max == 20


def test_a_field_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Scaler has no field spec\.replicas"):
        from_kind(Scaler, fields={"spec.replicas": st.just(1)})


def test_built_in_kinds() -> None:
    found = find(
        from_kind(ConfigMap, name="a"), lambda each: bool(each.data), settings=settings(database=None)
    )
    assert found.metadata.namespace == "default"
