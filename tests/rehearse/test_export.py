"""`kubewright export` and `plan` read a cluster, change nothing in it, and let no secret leave it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubewright.api.unstructured import Unstructured
from kubewright.apiserver.audit import AuditOptions
from kubewright.client.wait import condition
from kubewright.controlplane import ControlPlane
from kubewright.explore.simulation.factories import ModuleFactory
from kubewright.manager.operators.installation import definitions_of
from kubewright.recording.redaction import LAST_APPLIED
from kubewright.rehearse import ClusterSnapshot, Redactor, write_export
from kubewright.rehearse.kind_selection import KindSelection
from kubewright.rehearse.plans.html import html_of
from kubewright.rehearse.plans.markdown import markdown_of
from kubewright.rehearse.plans.planner import PlanOptions, plan_operator

from .shop_project import make_shop, shop

SECRET = "zq7planted5secret3value"
READER = "reader"
RULES = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"


def planted(secret: str) -> list[dict[str, Any]]:
    """Return objects with a secret in each place that is redacted."""
    env = [{"name": "PASSWORD", "value": secret}]
    container = {"name": "web", "image": "web:1", "env": env, "args": [f"--token={secret}"]}
    labels = {"app": "web"}
    names = {"name": "planted", "namespace": "default"}
    applied = {LAST_APPLIED: json.dumps({"data": {"password": secret}})}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": names, "stringData": {"password": secret}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**names, "annotations": applied},
            "data": {"app.properties": f"db.password={secret}\n", "auth": f"Bearer {secret}"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**names, "annotations": applied},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
    ]


def encodings(secret: str) -> list[str]:
    """Return the forms in which a secret could leave: plain, and encoded at each offset."""
    found = [secret]
    for offset in range(3):
        text = base64.b64encode(b"x" * offset + secret.encode()).decode()
        found.append(text[4:-4])
    return found


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    flags = {
        "audit-policy-file": str(tmp_path / "policy.yaml"),
        "audit-log-path": str(tmp_path / "audit.log"),
        "audit-log-mode": "blocking",
    }
    audit = AuditOptions.from_flags(flags)
    async with ControlPlane(
        port=0, store="memory:", kubeconfig=tmp_path / "admin", nodes=0, audit=audit
    ) as found:
        client = found.client()
        for each in planted(SECRET):
            await client.create(Unstructured(each))
        yield found


async def stored(plane: ControlPlane) -> dict[str, int]:
    """Return the revisions of all objects but the Leases, which the control plane renews."""
    page = await plane.storage.list(plane.server.prefix)
    return {each.key: each.mod_revision for each in page.items if "/leases/" not in each.key}


async def kubewright(directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command while the control plane of the test serves."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kubewright.cli", *arguments),
        cwd=directory,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode or 0, output.decode(), errors.decode()


async def create_reader(plane: ControlPlane, folder: Path, rules: list[dict[str, Any]]) -> Path:
    """Return the kubeconfig of a user with these permissions only."""
    client = plane.client()
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": READER}}
    await client.create(Unstructured({**role, "kind": "ClusterRole", "rules": rules}))
    subject = {"kind": "User", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    await client.create(Unstructured(binding))
    plane.write_kubeconfig(folder / "reader", user=READER)
    return folder / "reader"


def requests_of_reader(folder: Path) -> list[dict[str, Any]]:
    """Return the requests of the reader in the audit log."""
    log = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
    return [each for each in log if each["user"]["username"] == READER]


async def test_the_source_is_only_read_and_no_secret_leaves_it(plane: ControlPlane, tmp_path: Path) -> None:
    project = make_shop(tmp_path / "project")
    sys.path.insert(0, str(project))
    client = plane.client()
    try:
        [definition] = definitions_of(ModuleFactory("shop:operator")().kinds)
    finally:
        sys.path.remove(str(project))
    await client.create(Unstructured(definition))
    await client.wait(Unstructured(definition), until=condition("Established"), timeout=60)
    made = shop()
    await client.create(Unstructured({**made, "metadata": {"name": "books", "namespace": "default"}}))
    kubeconfig = await create_reader(plane, tmp_path, RULES)
    before = await stored(plane)

    code, _, errors = await kubewright(
        project, "export", "shop:operator", "--kubeconfig", str(kubeconfig), "-o", "export.json"
    )
    assert code == 0, errors
    reports = ("--json", "plan.json", "--markdown", "plan.md", "--html", "plan.html")
    printed = ""
    for source in (str(kubeconfig), "export.json"):
        code, output, errors = await kubewright(project, "plan", "shop:operator", "--from", source, *reports)
        assert code == 2, output + errors
        assert "+ Deployment.apps default/books created" in output
        printed += output + errors
        printed += "".join((project / each).read_text() for each in reports[1::2])
    for text in encodings(SECRET):
        assert text not in printed
        assert text not in (project / "export.json").read_text()

    assert await stored(plane) == before, "nothing was written to the source"
    requests = requests_of_reader(tmp_path)
    assert len(requests) > 20
    assert {each["verb"] for each in requests} <= {"get", "list"}
    assert {each["verb"] for each in requests if "objectRef" in each} == {"list"}


async def test_a_recording_only_lists_and_watches(plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = await create_reader(plane, tmp_path, [{**RULES[0], "verbs": ["list", "watch"]}, *RULES[1:]])
    before = await stored(plane)
    arguments = ("record", "--kubeconfig", str(kubeconfig), "--duration", "2s", "out.recording.gz")
    code, _, errors = await kubewright(tmp_path, *arguments)
    assert code == 0, errors
    text = gzip.decompress((tmp_path / "out.recording.gz").read_bytes()).decode()
    assert all(each not in text for each in encodings(SECRET))
    assert await stored(plane) == before, "nothing was written to the source"
    requests = requests_of_reader(tmp_path)
    assert {each["verb"] for each in requests if "objectRef" in each} == {"list", "watch"}
    assert {each["verb"] for each in requests} <= {"get", "list", "watch"}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    secret=st.text("abcdefghijkmnpqrstuvwxyz23456789", min_size=12, max_size=24).map(lambda each: f"zq{each}")
)
def test_no_planted_value_is_in_an_export(tmp_path: Path, secret: str) -> None:
    redactor = Redactor()
    snapshot = ClusterSnapshot.of([redactor.redact(each) for each in planted(secret)], is_redacted=True)
    write_export(snapshot, tmp_path / "export.json")
    content = (tmp_path / "export.json").read_text()
    assert not [text for text in encodings(secret) if text in content]


def test_values_that_an_operator_copies_are_redacted_in_all_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The Secret is not redacted here, as if an operator had read it: reports must redact the copy.
    monkeypatch.syspath_prepend(str(make_shop(tmp_path / "copies")))
    factory = ModuleFactory("shop:operator")
    password = base64.b64encode(SECRET.encode()).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db", "namespace": "default", "uid": "db", "resourceVersion": "3"},
        "data": {"password": password},
    }
    definitions = list(definitions_of(factory().kinds))
    snapshot = ClusterSnapshot.of([*definitions, secret, shop()], kubernetes_version="1.36")
    planned = plan_operator(factory, snapshot, PlanOptions())
    assert any(SECRET.encode() in each for each in planned.final.objects), "the operator has copied it"
    written = [json.dumps(planned.plan.to_dict()), markdown_of(planned.plan), html_of(planned.plan)]
    assert "redacted-" in written[0]
    assert not [text for text in encodings(SECRET) if any(text in each for each in written)]


def test_kinds_are_those_of_the_rules_and_what_decides_about_requests(tmp_path: Path) -> None:
    from kubewright.api.declaring.declarations import Rbac

    rule = Rbac(groups=("apps",), resources=("deployments",), verbs=("get",))
    selection = KindSelection.of_rules([rule])
    for group, resource in (
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("", "pods"),
        ("", "resourcequotas"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("rbac.authorization.k8s.io", "roles"),
    ):
        assert selection.includes(group, resource), resource
    assert not selection.includes("", "secrets")
    assert not KindSelection().includes("", "events")
