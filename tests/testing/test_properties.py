"""Property-based tests of operators."""

from __future__ import annotations

from typing import Annotated

import pytest

from kubewright import Context, CustomResource, ObjectMeta, Operator, Result, Spec, Status, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.markers import Ge, Le
from kubewright.testing import check_operator


class GreetingSpec(Spec):
    times: Annotated[int, Ge(1), Le(10)] = 1


class GreetingStatus(Status):
    reconciles: int = 0
    longest: int = 0


@resource(group="properties.example.com", version="v1")
class Greeting(CustomResource[GreetingSpec, GreetingStatus]):
    """A greeting."""


def config_map(greeting: Greeting) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(name=greeting.metadata.name), data={"text": "hello " * greeting.spec.times}
    )


def test_the_greeter_has_all_properties() -> None:
    operator = Operator("greeter")

    @operator.reconcile(Greeting, owns=(ConfigMap,))
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> Result:
        await ctx.ensure([config_map(greeting)])
        return Result(requeue_after=300)

    check_operator(operator, Greeting, examples=3)


def test_a_second_pass_that_writes_is_reported() -> None:
    operator = Operator("counter")

    @operator.reconcile(Greeting, predicates=(lambda change: change.type == "create",))
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> None:
        greeting.status = greeting.status or GreetingStatus()
        greeting.status.reconciles += 1
        await ctx.update_status()

    with pytest.raises(
        AssertionError, match="idempotent: a second pass wrote: patch greetings/status example"
    ):
        check_operator(operator, Greeting, examples=2)


def test_state_that_depends_on_history_is_reported() -> None:
    operator = Operator("longest")

    @operator.reconcile(Greeting)
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> None:
        status = greeting.status or GreetingStatus()
        if greeting.spec.times > status.longest:
            greeting.status = GreetingStatus(longest=greeting.spec.times)
            await ctx.update_status()

    with pytest.raises(AssertionError, match="restores: these objects differ"):
        check_operator(operator, Greeting, examples=200)  # ends with the first update that increases times


def test_objects_that_remain_after_deletion_are_reported() -> None:
    operator = Operator("leaking")

    @operator.reconcile(Greeting)
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> None:
        leaked = config_map(greeting)
        leaked.metadata.namespace = greeting.metadata.namespace
        await ctx.client.apply(leaked, force=True)

    with pytest.raises(AssertionError, match="cleans_up: objects remain after deletion: configmaps/example-"):
        check_operator(operator, Greeting, properties=("cleans_up",), examples=2)


def test_an_operator_that_never_stops_writing_is_reported() -> None:
    operator = Operator("restless")

    @operator.reconcile(Greeting)
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> None:
        greeting.status = greeting.status or GreetingStatus()
        greeting.status.reconciles += 1
        await ctx.update_status()

    with pytest.raises(
        AssertionError, match=r"converges: .* \(it still writes\); last writes: patch greetings/status"
    ):
        check_operator(operator, Greeting, examples=1, timeout=600)


def test_a_write_in_every_interval_is_reported() -> None:
    operator = Operator("heartbeat")

    @operator.timer(Greeting, interval=30)
    async def beat(greeting: Greeting, ctx: Context[Greeting]) -> None:
        greeting.status = greeting.status or GreetingStatus()
        greeting.status.reconciles += 1
        await ctx.update_status()

    with pytest.raises(AssertionError, match="it still writes"):
        check_operator(operator, Greeting, examples=1, timeout=600)


def test_reconciles_that_fail_are_reported() -> None:
    operator = Operator("failing")

    @operator.reconcile(Greeting)
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> None:
        raise ConnectionError("no backend")

    with pytest.raises(AssertionError, match=r"reconciles fail: .*no backend"):
        check_operator(operator, Greeting, examples=1, timeout=600)


def test_an_unknown_property_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown property 'converge'"):
        check_operator(Operator("any"), Greeting, properties=("converge",))  # type: ignore[arg-type]
