"""Client calls in the source of a project, and the permissions that they require."""

from __future__ import annotations

import importlib.util
import sys
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest

from kubewright.api import Rbac
from kubewright.manifests.client_calls import ClientCall, ClientCalls, find_client_calls

HEADER = """
from __future__ import annotations
from kubewright import Context
from kubewright.api.apps.v1 import Deployment
from kubewright.api.core.v1 import ConfigMap, Pod, Secret
from kubewright.api.core import v1
from kubewright.client import Client


def make_deployment(name: str) -> Deployment:
    return Deployment()


"""
_numbers = count()


@pytest.fixture
def scan(tmp_path: Path):
    """Return a function that finds the calls in the body of an async function."""

    def find(body: str) -> ClientCalls:
        name = f"scanned_{next(_numbers)}"
        path = tmp_path / f"{name}.py"
        function = "async def reconcile(pod: Pod, ctx: Context[Pod], client: Client, other) -> None:\n"
        text = "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
        path.write_text(HEADER + function + text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return find_client_calls([module])

    return find


READ = ("get", "list", "watch")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("await client.get(Secret, 'a')", [("secrets", ("get",))]),
        ("await ctx.client.get(Secret, 'a')", [("secrets", READ)]),
        ("await ctx.client.uncached.get(Secret, 'a')", [("secrets", ("get",))]),
        ("await client.in_namespace('x').delete(v1.Secret, 'a')", [("secrets", ("delete",))]),
        ("await client.create(ConfigMap())", [("configmaps", ("create",))]),
        ("made = ConfigMap()\nawait client.update(made)", [("configmaps", ("patch",))]),
        ("await client.update_status(pod)", [("pods/status", ("patch",))]),
        ("await ctx.apply(ctx.own(ConfigMap()))", [("configmaps", ("create", "patch"))]),
        ("await client.delete_all(Pod, namespace='x')", [("pods", ("deletecollection",))]),
        (
            "found = await client.get(Deployment, 'a')\nawait client.delete(found)",
            [("deployments", ("get",)), ("deployments", ("delete",))],
        ),
        (
            "async for each in client.list(Secret):\n    await client.delete(each)",
            [("secrets", ("list",)), ("secrets", ("delete",))],
        ),
        (
            "[await client.delete(each) for each in await client.list(Secret).all()]",
            [("secrets", ("list",)), ("secrets", ("delete",))],
        ),
        ("client.log(pod)", [("pods/log", ("get",))]),
        (
            "await ctx.ensure([make_deployment('a'), ConfigMap()])",
            [
                ("deployments", (*READ, "create", "patch", "delete")),
                ("configmaps", (*READ, "create", "patch", "delete")),
            ],
        ),
        ("{}.get('a')\nother.create(Secret())", []),
    ],
)
def test_calls_and_their_verbs(scan, body: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    found = scan(body)
    assert [(call.resource, call.verbs) for call in found.calls] == expected
    assert not found.unknown


def test_calls_of_unknown_kinds_are_counted(scan) -> None:
    found = scan("await client.create(other)")
    assert not found.calls
    assert len(found.unknown) == 1
    assert found.unknown[0].endswith(":15")


def test_group_and_location_of_a_call(scan) -> None:
    (call,) = scan("await client.get(Deployment, 'a')").calls
    assert (call.group, call.text) == ("apps", "get(Deployment)")
    assert call.where.endswith(":15")


@pytest.mark.parametrize(
    ("rule", "missing"),
    [
        (Rbac(groups=("core",), resources=("pods",), verbs=("get",)), ("delete",)),
        (Rbac(groups=("",), resources=("pods",), verbs=("get", "delete")), ()),
        (Rbac(groups=("*",), resources=("*",), verbs=("*",)), ()),
        (Rbac(groups=("apps",), resources=("pods",), verbs=("*",)), ("get", "delete")),
        (Rbac(groups=("core",), resources=("pods/status",), verbs=("*",)), ("get", "delete")),
    ],
)
def test_missing_verbs(rule: Rbac, missing: tuple[str, ...]) -> None:
    call = ClientCall("main.py:1", "get(Pod)", "", "pods", ("get", "delete"))
    assert call.missing([rule]) == missing


def test_wildcards_of_subresources() -> None:
    call = ClientCall("main.py:1", "update_status(Pod)", "", "pods/status", ("patch",))
    assert not call.missing([Rbac(groups=("core",), resources=("*/status",), verbs=("patch",))])


def test_plugins_of_kubectl_use_permissions_of_the_user(scan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scan("await client.list(Pod)").calls
    module = sys.modules[f"scanned_{next(_numbers) - 1}"]
    monkeypatch.setattr(module, "__name__", "shop.kubectl_shop")
    assert not find_client_calls([module]).calls
