"""Plans of a small operator: permissions, assumptions, external calls, errors, policy, usage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubewright.explore.simulation.factories import ModuleFactory
from kubewright.manager.operators.installation import definitions_of
from kubewright.rehearse import ClusterSnapshot, write_export
from kubewright.rehearse.plans.model import Plan
from kubewright.rehearse.plans.planner import PlanOptions, plan_operator
from kubewright.rehearse.plans.policy import PlanPolicy, PolicyError

from .cron_jobs import run_plan
from .shop_project import make_shop, shop

MakePlan = Callable[..., Plan]
IMPORT = "from kubewright.api.meta import LabelSelector\n"


@pytest.fixture
def make_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePlan:
    def make(
        *edits: tuple[str, str], objects: tuple[dict[str, Any], ...] = (), twice: bool = False, **options: Any
    ) -> Plan:
        monkeypatch.syspath_prepend(str(make_shop(tmp_path / "project", *edits)))
        factory = ModuleFactory("shop:operator")
        definitions = list(definitions_of(factory().kinds))
        snapshot = ClusterSnapshot.of([*definitions, *(objects or (shop(),))], kubernetes_version="1.36")
        if twice:
            snapshot = plan_operator(factory, snapshot).final
        return plan_operator(factory, snapshot, PlanOptions(**options)).plan

    return make


def names(plan: Plan) -> list[str]:
    return [f"{each.verb} {each.name.kind}" for each in plan.operator_changes]


def test_workloads_become_ready_and_a_second_plan_changes_nothing(make_plan: MakePlan) -> None:
    plan = make_plan(objects=(shop(replicas=2),))
    assert (names(plan), plan.exit_code) == (["create Deployment"], 2)
    by_cluster = [f"{each.verb} {each.name.kind}" for each in plan.changes if each.actor == "cluster"]
    assert by_cluster == ["create ReplicaSet", "create Pod", "create Pod"]
    assert plan.waiting == []
    again = make_plan(twice=True)
    assert (again.changes, again.errors, again.exit_code) == ([], [], 0)


def test_what_does_not_become_ready_is_waited_for(make_plan: MakePlan) -> None:
    plan = make_plan(assume="nothing")
    [waiting] = plan.waiting
    assert waiting.object == "Deployment.apps default/books"
    assert [each.name.kind for each in plan.changes] == ["Deployment"], "no controller creates pods"


def test_permissions_are_those_of_the_generated_rules(make_plan: MakePlan) -> None:
    body = "    await ctx.ensure("
    call = (
        '    await ctx.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, '
    )
    plan = make_plan((body, f'{call}namespace="default")\n{body}'))
    [missing] = plan.permissions
    assert (missing.verb, missing.resource) == ("create", "configmaps")
    assert plan.exit_code == 1
    assert any("is forbidden" in each for each in plan.errors)


def test_permissions_of_the_source_can_be_used_instead(make_plan: MakePlan) -> None:
    plan = make_plan(service_account="shop-system/other")
    assert plan.exit_code == 1
    assert {each.verb for each in plan.permissions} <= {"list", "watch"}
    assert plan.operator_changes == []


@pytest.mark.parametrize("is_async", [True, False])
def test_calls_of_other_systems_are_listed_and_blocked(make_plan: MakePlan, is_async: bool) -> None:
    if is_async:
        lines = "    import asyncio\n    await asyncio.open_connection('db.example.com', 5432)\n"
    else:
        lines = (
            "    import asyncio, socket\n"
            "    await asyncio.to_thread(socket.create_connection, ('db.example.com', 5432))\n"
        )
    plan = make_plan(("    labels =", f"{lines}    labels ="))
    assert plan.calls == ["db.example.com:5432"]
    assert plan.exit_code == 1


STATUS = """from kubewright import Condition, Status, set_condition


class ShopStatus(Status):
    conditions: list[Condition] | None = None


"""
CONDITION = """    opened = Condition(type="Open", status="True", reason="Monday", message="")
    set_condition(shop.status, opened)
    await ctx.update_status()
    ctx.event("Normal", "Opened", "the shop is open")
"""
FAKES = """
from kubewright.rehearse.plans.declared_fakes import replaced
from kubewright.testing.applications import FakeHTTP

stock = FakeHTTP("stock", port=8080)
stock.route("GET", "/items")(lambda request: {"items": 4})
price = replaced("shop:price", lambda: "from a fake")
"""


def test_declared_fakes_respond_instead_of_other_systems(
    make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project_fakes.py").write_text(FAKES)
    monkeypatch.syspath_prepend(str(tmp_path))
    lines = """    import aiohttp
    async with aiohttp.ClientSession() as session, session.get("http://stock:8080/items") as response:
        items = (await response.json())["items"]
    shop.spec.replicas, shop.spec.image = items, price()
"""
    price = "def price() -> str:\n    raise RuntimeError('not in a plan')\n\n\noperator ="
    plan = make_plan(
        ("    labels =", f"{lines}    labels ="), ("operator =", price), fakes=("project_fakes",)
    )
    assert (plan.calls, plan.errors, plan.exit_code) == ([], [], 2)
    [created] = plan.operator_changes
    assert "+  replicas: 4\n" in created.diff
    assert "image: from a fake\n" in created.diff


def test_an_error_of_the_operator_is_an_error_of_the_plan(make_plan: MakePlan) -> None:
    plan = make_plan(("    labels =", "    raise ValueError('no stock')\n    labels ="))
    assert plan.exit_code == 1
    assert any("ValueError: no stock" in each for each in plan.errors)
    assert plan.events[0].reason == "ReconcileFailed"


def test_an_endless_loop_of_writes_ends_the_plan(make_plan: MakePlan) -> None:
    lines = """    for number in range(5000):
        await ctx.client.patch(shop, merge_patch({"metadata": {"annotations": {"n": str(number)}}}))
"""
    plan = make_plan(
        (IMPORT, f"{IMPORT}from kubewright.client.patches import merge_patch\n"),
        ("    labels =", f"{lines}    labels ="),
    )
    assert plan.exit_code == 1
    assert any("hot loop" in each for each in plan.errors)


def test_conditions_and_events_of_the_operator_are_part_of_the_plan(make_plan: MakePlan) -> None:
    plan = make_plan(
        ("class Shop(CustomResource[ShopSpec, None])", "class Shop(CustomResource[ShopSpec, ShopStatus])"),
        ("@resource(", STATUS + "@resource("),
        ("    await ctx.ensure(", CONDITION + "    await ctx.ensure("),
    )
    [found] = plan.conditions
    assert (found.object, found.type) == ("Shop.example.com default/books", "Open")
    assert (found.before, found.after, found.reason) == ("", "True", "Monday")
    [event] = plan.events
    assert (event.object, event.type, event.reason, event.message) == (
        "Shop.example.com default/books",
        "Normal",
        "Opened",
        "the shop is open",
    )


def test_a_quota_of_the_source_rejects_what_the_operator_creates(make_plan: MakePlan) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "default", "uid": "quota", "resourceVersion": "3"},
        "spec": {"hard": {"count/deployments.apps": "0"}},
        "status": {"hard": {"count/deployments.apps": "0"}, "used": {"count/deployments.apps": "0"}},
    }
    plan = make_plan(objects=(shop(), quota))
    assert any("exceeded quota: none" in each for each in plan.errors)


def test_a_policy_allows_and_denies_changes(make_plan: MakePlan, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("allow: [{kind: Deployment, verb: create}]\n")
    plan = make_plan()
    PlanPolicy.read(file).apply(plan)
    assert (plan.exit_code, {each.policy for each in plan.changes}) == (0, {"allowed"})
    file.write_text("allow: [{kind: Deployment}]\ndeny: [{kind: Deployment.apps, namespace: def*}]\n")
    plan = make_plan()
    PlanPolicy.read(file).apply(plan)
    assert (plan.exit_code, [str(each.name) for each in plan.denied]) == (
        1,
        ["Deployment.apps default/books"],
    )


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("spec.template.spec.containers[*].image", ".spec.template.spec.containers[web].image", True),
        ("spec.template.spec.containers[*].image", ".spec.template.spec.containers[web].args", False),
        ("spec.template", ".spec.template.metadata.labels.a", True),
        ("spec.temp", ".spec.template", False),
        ("spec.*", ".spec.replicas", True),
    ],
)
def test_rules_match_fields_and_what_is_below_them(pattern: str, path: str, matches: bool) -> None:
    from kubewright.rehearse.plans.policy import PolicyRule

    assert PolicyRule(field=pattern).matches_field(path) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected the keys allow and deny"),
        ("allow: {}", "allow is not a list"),
        ("deny: [{verb: destroy}]", "verb must be some of create, change, delete, recreate"),
        ("deny: [{resource: pods}]", "expected some of kind, namespace, name, verb, field"),
        ("deny: [", "not valid YAML"),
    ],
)
def test_a_wrong_policy_is_an_error_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(PolicyError, match=message) as caught:
        PlanPolicy.read(tmp_path / "policy.yaml")
    assert "\n" not in str(caught.value)


def test_usage_errors_have_exit_code_1_because_2_means_changes(tmp_path: Path) -> None:
    write_export(ClusterSnapshot.of([shop()]), tmp_path / "export.json")
    for arguments, message in (
        (["--from", "export.json"], "pass either MODULE:OPERATOR or --command"),
        (["shop:operator", "--form", "x"], "No such option --form; did you mean --from?"),
        (["shop:operator"], "--from is missing"),
        (["missing:operator", "--from", "export.json"], "cannot import missing"),
    ):
        found = run_plan(tmp_path, *arguments)
        assert (found.returncode, found.stdout) == (1, ""), arguments
        assert found.stderr.startswith(f"Error: {message}"), found.stderr
        assert found.stderr.count("\n") == 1
