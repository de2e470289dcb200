"""Declared permissions against what was really done."""

from __future__ import annotations

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.declarations import Rbac
from kubewright.client import patches
from kubewright.testing.permissions import PermissionRecorder
from kubewright.testing.server import start_test_server


def rbac(*verbs: str, resources: tuple[str, ...] = ("configmaps",), **more: object) -> Rbac:
    return Rbac(groups=("core",), resources=resources, verbs=verbs, **more)  # type: ignore[arg-type]


async def use(recorder: PermissionRecorder) -> None:
    async with start_test_server("in-process", None, controllers=False) as server:
        client = recorder.wrap(server.client())
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await client.get(ConfigMap, "a", namespace="default")
        await client.patch(
            ConfigMap, patches.merge_patch({"data": {"a": "b"}}), name="a", namespace="default"
        )
        assert [each.metadata.name async for each in client.list(ConfigMap, namespace="default")] == ["a"]


async def test_rules_that_fit_pass() -> None:
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


async def test_names_and_namespaces_of_rules_are_held_against_calls() -> None:
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
