"""`kubewright plan --command`: an operator of kopf, its upgrades, and its calls of other systems."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kubewright.rehearse import ClusterSnapshot, write_export

from .cron_jobs import commit, edit, run_plan
from .kopf_project import definition, make_kopf_project
from .shop_project import shop

pytest.importorskip("kopf", reason="kopf is not installed")
COMMAND = f"{sys.executable} shop.py"
RECREATED = """    except AlreadyExists:
        await memo.client.delete("configmaps", name, namespace=namespace)
        await memo.client.create(settings, namespace=namespace)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_export(ClusterSnapshot.of([definition(), shop()], kubernetes_version="1.36"), tmp_path / "a.json")
    project = make_kopf_project(tmp_path / "project")
    commit(project, "v1")
    return project


def test_an_upgrade_that_recreates_objects_and_a_crd_that_rejects_stored_ones(project: Path) -> None:
    edit(project / "shop.py", "    except AlreadyExists:\n        pass\n", RECREATED)
    (project / "crd.json").write_text(json.dumps(definition(image={"type": "string", "maxLength": 3})))
    found = run_plan(
        project,
        *("--command", COMMAND, "--from", "../a.json", "--against", "v1", "-f", "crd.json", "--json", "-"),
    )
    assert found.returncode == 3, found.stdout + found.stderr
    plan = json.loads(found.stdout)
    recreated = [each for each in plan["changes"] if each["kind"] == "ConfigMap"]
    assert [(each["name"], each["verb"], each["actor"]) for each in recreated] == [
        ("books", "recreate", "operator")
    ]
    assert recreated[0]["owners"] == ["Shop.example.com default/books"]
    assert [each["object"] for each in plan["rejected"]] == ["Shop.example.com default/books"]


def test_calls_of_other_systems_go_to_a_proxy_that_rejects_them(project: Path) -> None:
    lines = """    import urllib.error, urllib.request
    try:
        urllib.request.urlopen("http://billing.example.com/shops", timeout=5)
    except urllib.error.HTTPError as error:
        assert error.code == 502
"""
    edit(project / "shop.py", "    settings = {\n", f"{lines}    settings = {{\n")
    found = run_plan(project, "--command", COMMAND, "--from", "../a.json", "--json", "-")
    plan = json.loads(found.stdout)
    assert (found.returncode, plan["calls"]) == (1, ["billing.example.com:80"])
    assert [each["verb"] for each in plan["changes"] if each["kind"] == "ConfigMap"] == ["create"]


def test_requests_to_declared_fakes_are_forwarded_to_them(project: Path) -> None:
    (project / "fakes.py").write_text(
        "from kubewright.testing.applications import FakeHTTP\n"
        "stock = FakeHTTP('stock', port=8080)\n"
        "stock.route('GET', '/items')(lambda request: {'items': 4})\n"
    )
    lines = """    import json, urllib.request
    items = json.load(urllib.request.urlopen("http://stock:8080/items", timeout=5))["items"]
"""
    edit(project / "shop.py", "    settings = {\n", f"{lines}    settings = {{\n")
    edit(project / "shop.py", '{"image": spec["image"]}', '{"items": str(items)}')
    found = run_plan(project, "--command", COMMAND, "--from", "../a.json", "--fakes", "fakes", "--json", "-")
    plan = json.loads(found.stdout)
    assert (found.returncode, plan["calls"]) == (2, []), found.stdout
    assert any("+  items: '4'" in each.get("diff", "") for each in plan["changes"])


def test_a_program_that_does_not_run_is_an_error_with_its_last_line(project: Path) -> None:
    found = run_plan(
        project, "--command", f"{sys.executable} -c 'raise ValueError(3)'", "--from", "../a.json"
    )
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.endswith("ended with exit code 1: ValueError: 3\n")
