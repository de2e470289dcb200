"""Plans of a wheel, a directory and a deployment; fakes behind Services; reports of hostile values."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.unstructured import Unstructured
from kubewright.client.wait import condition
from kubewright.controlplane import ControlPlane
from kubewright.explore.simulation.factories import ModuleFactory
from kubewright.manager.operators.installation import definitions_of
from kubewright.rehearse import ClusterSnapshot, write_export
from kubewright.rehearse.plans.html import html_of
from kubewright.rehearse.plans.markdown import markdown_of
from kubewright.rehearse.plans.model import Plan, PlannedChange
from kubewright.rehearse.plans.object_changes import FieldChange
from kubewright.rehearse.snapshot import ObjectName

from .cron_jobs import run_plan
from .shop_project import make_shop, shop

SETTINGS = """
[tool.kubewright]
name = "shop"
modules = ["shop"]

[tool.kubewright.deployment]
image = "shop:1"
"""


def definitions(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.syspath_prepend(str(project))
    return list(definitions_of(ModuleFactory("shop:operator")().kinds))


@pytest.mark.parametrize("form", ["wheel", "image"])
def test_the_previous_version_can_be_a_wheel_or_the_directory_of_an_image(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_shop(tmp_path / "old")
    export = ClusterSnapshot.of([*definitions(old, monkeypatch), shop()], kubernetes_version="1.36")
    write_export(export, tmp_path / "export.json")
    if form == "wheel":
        version = tmp_path / "shop-1.0-py3-none-any.whl"
        with zipfile.ZipFile(version, "w") as archive:
            archive.write(old / "shop.py", "shop.py")
    else:
        version = tmp_path / "root"
        (version / "app" / "src").mkdir(parents=True)
        (old / "shop.py").rename(version / "app" / "src" / "shop.py")
    new = make_shop(tmp_path / "new", ('Container(name="web"', 'Container(args=["-v"], name="web"'))
    found = run_plan(
        new, "shop:operator", "--from", "../export.json", "--against", str(version), "--json", "-"
    )
    assert found.returncode == 3, found.stdout + found.stderr
    [change] = [each for each in json.loads(found.stdout)["changes"] if each["actor"] == "operator"]
    assert (change["verb"], change["disruption"]) == ("change", "restarts 1 pod")
    assert [each["path"] for each in change["fields"]] == [".spec.template.spec.containers[web].args"]


async def kubewright(directory: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubewright.cli", *arguments),
        cwd=directory,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_deploy_shows_the_plan_and_stops_before_a_disruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_shop(tmp_path / "project")
    (project / "pyproject.toml").write_text(SETTINGS)
    [definition] = definitions(project, monkeypatch)
    labels = {"app": "books"}
    names = {"name": "books", "namespace": "default"}
    async with ControlPlane(port=0, store="memory:", kubeconfig=tmp_path / "admin", nodes=0) as plane:
        client = plane.client()
        await client.create(Unstructured(definition))
        await client.wait(Unstructured(definition), until=condition("Established"), timeout=60)
        made = await client.create(Unstructured({**shop(), "metadata": names}))
        owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "books", "controller": True}
        owner["uid"] = made.raw["metadata"]["uid"]
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "shop:0"}]},
        }
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**names, "ownerReferences": [owner]},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        }
        await client.create(Unstructured(deployment))
        arguments = ("deploy", "--plan", "--no-wait", "--kubeconfig", str(tmp_path / "admin"))
        process = await kubewright(project, *arguments)
        output, errors = (each.decode() for each in await process.communicate())
        assert process.returncode == 1, output + errors
        assert "~ Deployment.apps default/books changed; restarts 1 pod" in output
        assert errors.endswith(
            "Error: not deployed: something would be disrupted; deploy it with --accept-disruption\n"
        )
        assert await client.get_or_none("namespaces", "shop-system") is None, "nothing was deployed"
        process = await kubewright(project, *arguments, "--accept-disruption")
        output, errors = (each.decode() for each in await process.communicate())
        assert process.returncode == 0, output + errors
        assert await client.get_or_none("namespaces", "shop-system") is not None


async def test_fakes_are_served_behind_services_until_the_command_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "fakes.py").write_text(
        "from kubewright.testing.applications import FakeHTTP\nstock = FakeHTTP('stock', port=8080)\n"
    )
    async with ControlPlane(port=0, store="memory:", kubeconfig=tmp_path / "admin", nodes=0) as plane:
        process = await kubewright(tmp_path, "fake", "fakes", "--kubeconfig", str(tmp_path / "admin"))
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("service default/stock: port 8080 is 127.0.0.1:")
        service = await plane.client().get("services", "stock", namespace="default")
        assert service.raw["spec"]["ports"][0]["port"] == 8080
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert await plane.client().get_or_none("services", "stock", namespace="default") is None


def test_values_of_a_cluster_cannot_end_the_markup_of_reports() -> None:
    hostile = "```\n<script>alert(1)</script> | `x` | \n# title"
    change = PlannedChange(
        name=ObjectName("", "ConfigMap", "default", "a"),
        verb="change",
        fields=[FieldChange(".data.x", "", hostile)],
        diff=f"+  x: {hostile}\n",
        disruption=hostile,
    )
    plan = Plan(
        operator="a", source="b", objects=1, kubernetes_version="1.36", changes=[change], errors=[hostile]
    )
    page = html_of(plan)
    assert "<script>" not in page
    text = markdown_of(plan)
    assert "````diff\n" in text, "the fence is longer than those in the value"
    outside = text.partition("<details>")[0]
    for line in outside.splitlines():
        assert not line.startswith("# ")
        assert "<script>" not in line or "`" in line


def test_a_revision_outside_of_a_repository_is_an_error_that_names_it(tmp_path: Path) -> None:
    from kubewright.rehearse.plans.versions import VersionError, previous_version

    version = previous_version("v1", module="shop", directory=tmp_path)
    with pytest.raises(VersionError, match=r"v1: .*not a git repository"), version:
        pass
