"""Comparison of declared permissions with the requests of clients and operators."""

from __future__ import annotations

from typing import Annotated

import pytest

from kubewright import Context, CustomResource, Operator, Spec, resource
from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap, Node
from kubewright.api.declaring.declarations import Rbac
from kubewright.api.markers import Ge, Le
from kubewright.client import exists, patches
from kubewright.testing.operators import run_operator
from kubewright.testing.permissions import PermissionRecorder
from kubewright.testing.server import start_test_server


def rbac(*verbs: str, resources: tuple[str, ...] = ("configmaps",), **more: object) -> Rbac:
    return Rbac(groups=("core",), resources=resources, verbs=verbs, **more)  # type: ignore[arg-type]


async def use(recorder: PermissionRecorder) -> None:
    async with start_test_server("in-process", None, controllers=False) as server:
        client = recorder.wrap(server.client())
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await client.get(ConfigMap, "a", namespace="default")
        await client.patch(ConfigMap, "a", patches.merge_patch({"data": {"a": "b"}}), namespace="default")
        assert [each.metadata.name async for each in client.list(ConfigMap, namespace="default")] == ["a"]


async def test_matching_rules_pass() -> None:
    recorder = PermissionRecorder([rbac("create", "get"), rbac("list", "patch", namespace="default")])
    await use(recorder)
    recorder.check()


async def test_calls_without_a_rule_and_rules_without_a_call_are_listed() -> None:
    recorder = PermissionRecorder(rbac("create", "get", "list", "delete"), rbac("get", resources=("pods",)))
    await use(recorder)
    with pytest.raises(AssertionError) as caught:
        recorder.check()
    assert str(caught.value).splitlines()[1:] == [
        "  missing: patch configmaps a in default",
        "  unused: delete configmaps",
        "  unused: get pods",
    ]
    with pytest.raises(AssertionError, match="missing"):
        recorder.check(unused=False)


async def test_names_and_namespaces_of_rules_are_compared() -> None:
    recorder = PermissionRecorder(
        rbac("create", "list"),
        rbac("get", "patch", resource_names=("b",)),
        rbac("patch", namespace="other"),
    )
    await use(recorder)
    assert [str(each) for each in recorder.missing()] == [
        "get configmaps a in default",
        "patch configmaps a in default",
    ]


async def test_wildcards_allow_everything() -> None:
    recorder = PermissionRecorder(Rbac(groups=("*",), resources=("*",), verbs=("*",)))
    await use(recorder)
    recorder.check()


class GreetingSpec(Spec):
    times: Annotated[int, Ge(1), Le(10)] = 1


@resource(group="permissions.example.com", version="v1")
class Greeting(CustomResource[GreetingSpec, None]):
    """A greeting."""


def greeter() -> Operator:
    """Return the operator of README.md, with a webhook."""
    operator = Operator("greeter")

    @operator.reconcile(Greeting, owns=(ConfigMap,))
    async def reconcile(greeting: Greeting, ctx: Context[Greeting]) -> None:
        text = "hello " * greeting.spec.times
        await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=greeting.metadata.name), data={"text": text})])
        if greeting.spec.times == 7:
            await ctx.client.uncached.get_or_none(Node, "worker")

    @operator.default(Greeting)
    def set_defaults(greeting: Greeting) -> None: ...

    return operator


async def run_greeter(operator: Operator, recorder: PermissionRecorder, times: int) -> None:
    async with start_test_server("in-process") as server:
        client = server.client()
        async with run_operator(operator, recorder.wrap(client)):
            await client.create(
                Greeting(metadata=ObjectMeta(name="hi", namespace="default"), spec=GreetingSpec(times=times))
            )
            await client.wait(ConfigMap, "hi", namespace="default", until=exists, timeout=60)


async def test_the_greeter_passes_with_the_generated_rules() -> None:
    operator = greeter()
    recorder = PermissionRecorder(operator)
    await run_greeter(operator, recorder, 2)
    recorder.check()
    used = {str(use) for use in recorder.uses}
    assert "patch configmaps hi in default" in used
    assert not any("customresourcedefinitions" in use or "webhookconfigurations" in use for use in used)


async def test_own_declarations_of_an_operator_are_compared() -> None:
    operator = greeter()
    recorder = PermissionRecorder(operator, Rbac(groups=("core",), resources=("nodes",), verbs=("list",)))
    await run_greeter(operator, recorder, 7)
    with pytest.raises(AssertionError) as caught:
        recorder.check()
    assert str(caught.value).splitlines()[1:] == ["  missing: get nodes worker", "  unused: list nodes"]
    with pytest.raises(AssertionError, match="missing"):
        recorder.check(unused=False)
