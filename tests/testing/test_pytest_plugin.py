"""The pytest plug-in, in nested test runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

GREETER = """
from typing import Annotated
from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api.core.v1 import ConfigMap
from kubewright.api.markers import Ge, Le

class GreetingSpec(Spec):
    times: Annotated[int, Ge(1), Le(10)] = 1

@resource(group="plugin.example.com", version="v1")
class Greeting(CustomResource[GreetingSpec, None]):
    "A greeting."

operator = Operator("greeter")

@operator.reconcile(Greeting, owns=(ConfigMap,))
async def reconcile(greeting: Greeting, ctx: Context) -> None:
    text = "hello " * greeting.spec.times
    await ctx.ensure([ConfigMap(metadata=ObjectMeta(name=greeting.metadata.name), data={"text": text})])
"""
TEST = """
from kubewright import ObjectMeta
from kubewright.api.core.v1 import ConfigMap
from kubewright.client import exists
from greeter import Greeting, GreetingSpec, operator

async def test_greeting(client, running_operator):
    manager = await running_operator(operator)
    assert manager.ready
    await client.create(
        Greeting(metadata=ObjectMeta(name="hi", namespace="default"), spec=GreetingSpec(times=2))
    )
    found = await client.wait(ConfigMap, "hi", namespace="default", until=exists, timeout=60)
    assert found.data == {"text": "hello hello "}
"""
MORE = """
import pytest
from kubewright import Operator

@pytest.mark.control_plane("tls", controllers=False)
async def test_options_of_the_server(control_plane, client):
    assert control_plane.kind == "tls"
    assert not control_plane.plane.runs_controllers
    assert client.options is not None

async def test_operator_that_stops(running_operator):
    operator = Operator("failing")

    @operator.on_startup
    def fail() -> None:
        raise LookupError("no backend")

    await running_operator(operator)
"""
SOURCE = Path(__file__).parents[2]
OPTIONS = ("-p", "no:cacheprovider")
"""The installed package registers the plug-in by its entry point."""


@pytest.fixture(autouse=True)
def _import_this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE / "src"))


def test_fixtures_need_no_set_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(greeter=GREETER, test_greeter=TEST, test_more=MORE)
    result = pytester.runpytest_subprocess(*OPTIONS, "-o", "asyncio_mode=strict", "--strict-markers")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*LookupError: no backend*"])


def test_other_projects_import_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_imports():
            loaded = {name.split(".")[1] for name in sys.modules if name.startswith("kubewright.")}
            assert loaded == {"lazy", "parts", "testing"}
            assert "msgspec" not in sys.modules

        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS, "-o", "asyncio_mode=strict", "-k", "imports")
    result.assert_outcomes(passed=1)


def test_a_suite_runs_on_several_versions(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        async def test_any(client, kubernetes_version):
            assert (await client.version())["gitVersion"] == f"v{kubernetes_version}.0"

        @pytest.mark.control_plane(kubernetes="1.34")
        async def test_one(client):
            assert (await client.version())["minor"] == "34"

        def test_without_a_control_plane():
            pass
        """
    )
    run = (*OPTIONS, "-o", "asyncio_mode=strict", "--strict-markers", "-v")
    result = pytester.runpytest_subprocess(*run, "--kubernetes-version", "1.33,1.35")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_any*1.33* PASSED*", "*test_any*1.35* PASSED*"])
    result = pytester.runpytest_subprocess(*run, "--kubernetes-version", "1.2")
    assert result.ret != 0
    assert "Kubernetes 1.2 is not supported" in "".join((*result.outlines, *result.errlines))


def test_a_scenario_on_all_versions_names_what_a_version_lacks(pytester: pytest.Pytester) -> None:
    """Written once: one passes on all versions, one fails where a field does not exist yet."""
    pytester.makepyfile(
        """
        from kubewright.api.apps.v1 import Deployment

        def deployment(**spec):
            template = {"metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "web", "image": "nginx"}], **spec}}
            return {"apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                             "template": template}}

        async def test_a_deployment(client):
            await client.create(deployment(), field_validation="Strict")
            assert (await client.get(Deployment, "web", namespace="default")).spec.replicas == 2

        async def test_a_host_name(client):
            await client.create(deployment(hostnameOverride="web"), field_validation="Strict")
        """
    )
    run = (*OPTIONS, "-o", "asyncio_mode=strict", "-v", "--kubernetes-version", "1.33-1.37")
    result = pytester.runpytest_subprocess(*run)
    result.assert_outcomes(passed=9, failed=1)
    result.stdout.fnmatch_lines(
        ["*test_a_host_name*1.33* FAILED*", '*unknown field "spec.template.spec.hostnameOverride"*']
    )


def test_a_client_fixture_of_a_web_framework_takes_precedence(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        class Flask:
            @pytest.fixture
            def client(self):
                return "web client"

        def pytest_addoption(parser, pluginmanager):
            pluginmanager.register(Flask(), "flask")
        """
    )
    pytester.makepyfile("def test_client(client):\n    assert client == 'web client'\n")
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


def test_pytest_finds_the_plugin() -> None:
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {
        "kubewright": "kubewright.testing.pytest_plugin"
    }


def test_errors_of_constructors_are_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from kubewright.api.core.v1 import ConfigMap

        def test_it():
            ConfigMap(date={})
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*ConfigMap has no field 'date'; did you mean 'data'?*"])
