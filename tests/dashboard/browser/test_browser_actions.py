"""Actions on objects: one review with the command and the dry run, then the change and its record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubewright.api.apps.v1 import Deployment
from kubewright.api.batch.v1 import Job
from kubewright.api.core.v1 import ConfigMap, Node, Pod
from kubewright.api.errors import NotFound
from kubewright.api.meta import ObjectMeta
from kubewright.api.unstructured import Unstructured
from kubewright.client import patches
from kubewright.dashboard import Dashboard

from .conftest import Demo, OpenView, View

pytestmark = pytest.mark.asyncio(loop_scope="package")

LABELS = {"app": "acted"}


def deployment(name: str, image: str = "nginx:1") -> Unstructured:
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return Unstructured({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a function returns something true."""
    async with asyncio.timeout(60):
        while not (found := await condition()):
            await asyncio.sleep(0.05)
    return found


async def act(view: View, title: str) -> None:
    """Confirm the action of the open dialog after its dry run."""
    dialog = view.page.locator("dialog[open]")
    await dialog.locator(".action-command").wait_for()
    await dialog.locator(".dialog-actions").get_by_role("button", name=title).click()
    await view.count("dialog[open]", 0)


async def test_a_workload_is_scaled_restarted_and_rolled_back(open_view: OpenView, demo: Demo) -> None:
    await demo.client.create(deployment("acted"))
    async with open_view("#/object/apps/v1/deployments/default/acted") as view:
        await view.page.get_by_role("button", name="Scale").click()
        await view.page.get_by_label("Replicas").fill("3")
        dialog = view.page.locator("dialog[open]")
        await dialog.locator(".diff-added", has_text="replicas: 3").wait_for()
        await view.see(
            "kubectl scale deployments.apps/acted --replicas=3 --namespace=default", within="dialog"
        )
        found = await demo.client.get(Deployment, "acted", namespace="default")
        assert found.spec is not None
        assert found.spec.replicas == 1  # nothing was changed yet
        await act(view, "Scale")
        found = await demo.client.get(Deployment, "acted", namespace="default")
        assert found.spec is not None
        assert found.spec.replicas == 3

        await view.page.get_by_role("button", name="Restart").click()
        await view.page.locator(".diff-added", has_text="restartedAt").wait_for()
        await act(view, "Restart")
        await view.page.get_by_role("button", name="Roll back").click()
        await view.page.locator("select[name=revision]").wait_for()
        await view.page.locator(".diff-removed", has_text="restartedAt").wait_for()
        await act(view, "Roll back")
        found = await demo.client.get(Deployment, "acted", namespace="default")
        assert found.spec is not None
        assert found.spec.template is not None
        assert "restartedAt" not in str(found.spec.template.metadata)

        await view.page.get_by_role("button", name="Pause").click()
        await act(view, "Pause")
        await view.page.get_by_role("button", name="Resume").wait_for()

        await view.open("#/activity")
        await view.count(".event-item", 4)
        await view.see("kubectl rollout pause deployments.apps/acted")
    await demo.client.delete(Deployment, "acted", namespace="default")


async def test_several_objects_are_changed_with_one_review(open_view: OpenView, demo: Demo) -> None:
    for name in ("many-1", "many-2", "many-3"):
        await demo.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
    async with open_view("#/objects/core/v1/configmaps?q=many-&namespace=default") as view:
        await view.count(".vtable-row", 3)
        await view.page.get_by_label("Select all rows").check()
        await view.page.get_by_label("Select many-2").uncheck()
        bar = view.page.locator(".selection-bar")
        await bar.get_by_text("2 selected").wait_for()
        await bar.get_by_role("button", name="Delete").click()
        await view.count("dialog .action-step", 2)
        await view.see("kubectl delete configmaps/many-3", within="dialog")
        await demo.client.get(ConfigMap, "many-3", namespace="default")  # the dry run deletes nothing
        await act(view, "Delete (2 of 2 requests)")
        await view.count(".vtable-row", 1)
    await demo.client.delete(ConfigMap, "many-2", namespace="default")


async def test_an_object_is_created_from_yaml(open_view: OpenView, demo: Demo) -> None:
    async with open_view("#/create?kind=store.example.com/v1/shops&namespace=default") as view:
        view.expected_codes.add(422)
        line = view.page.locator(".cm-line", has_text="name: example").first
        await line.click()
        await view.page.keyboard.press("End")
        for _ in "example":
            await view.page.keyboard.press("Backspace")
        await view.page.keyboard.type("made")
        await view.page.keyboard.press("Control+Home")
        await view.page.get_by_role("button", name="Review").click()
        await view.see("currency: EUR", within="dialog")  # the webhook of the operator sets it
        await view.page.locator(".dialog-actions").get_by_role("button", name="Create").click()
        await view.page.wait_for_url("**/object/store.example.com/v1/shops/default/made**")
        await view.page.locator(".node", has_text="made").first.wait_for()
    await demo.client.delete("shops", "made", namespace="default")


async def test_a_cron_job_is_run_and_a_finalizer_is_removed(open_view: OpenView, demo: Demo) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
    metadata: dict[str, Any] = {"name": "nightly", "namespace": "default"}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}
    await demo.client.create(Unstructured(body))
    async with open_view("#/object/batch/v1/cronjobs/default/nightly") as view:
        await view.page.get_by_role("button", name="Run now").click()
        await view.see("kubectl create job --from=cronjob/nightly nightly-", within="dialog")
        await act(view, "Run now")
        jobs = await demo.client.list(Job, namespace="default")
        assert [each.name for each in jobs if each.name.startswith("nightly-")]

        stuck = ObjectMeta(name="stuck", namespace="default", finalizers=["example.com/backup"])
        await demo.client.create(ConfigMap(metadata=stuck))
        await demo.client.delete(ConfigMap, "stuck", namespace="default")
        await view.open("#/object/core/v1/configmaps/default/stuck")
        await view.page.get_by_role("button", name="Remove finalizers").click()
        await view.see("its controller has not finished its clean-up", within="dialog")
        await act(view, "Remove finalizers")
        with pytest.raises(NotFound):
            await demo.client.get(ConfigMap, "stuck", namespace="default")
    await demo.client.delete("cronjobs", "nightly", namespace="default")


async def test_a_node_is_drained_and_uncordoned(open_view: OpenView, demo: Demo) -> None:
    await demo.client.create(deployment("drained"))

    async def placed() -> str:
        pods = await demo.client.list(Pod, namespace="default", labels="app=acted")
        return next((each.spec.node_name or "" for each in pods if each.spec), "")

    node = await until(placed)
    async with open_view(f"#/object/core/v1/nodes/_/{node}") as view:
        await view.page.get_by_role("button", name="Drain").click()
        await view.page.locator(".action-step", has_text="Eviction of pod default/drained-").wait_for()
        await view.see(f"kubectl drain {node} --ignore-daemonsets", within="dialog")
        button = view.page.locator(".dialog-actions").get_by_role("button", name="Drain")
        await button.click()
        await view.count("dialog[open]", 0)
        await until(lambda: _moved(demo, node))
        await view.page.get_by_role("button", name="Uncordon").click()
        await act(view, "Uncordon")
        found = await demo.client.get(Node, node)
        assert not (found.spec and found.spec.unschedulable)
    await demo.client.delete(Deployment, "drained", namespace="default")


async def _moved(demo: Demo, node: str) -> bool:
    pods = await demo.client.list(Pod, namespace="default", labels="app=acted")
    return all(each.spec is not None and each.spec.node_name != node for each in pods)


async def test_a_read_only_dashboard_offers_no_actions(open_view: OpenView, demo: Demo) -> None:
    dashboard = Dashboard(demo.server.client(), read_only=True)
    await dashboard.start()
    try:
        async with open_view("#/object/apps/v1/deployments/default/cart", dashboard=dashboard) as view:
            await view.page.locator(".node").first.wait_for()
            await view.count(".page-actions .button", 1)
            await view.open("#/objects/apps/v1/deployments")
            await view.page.locator(".vtable-row").first.wait_for()
            await view.count(".cell-select", 0)
            await view.open("#/create")
            await view.see("The dashboard is read-only")
    finally:
        await dashboard.stop()


async def test_values_of_secrets_are_hidden_until_they_are_revealed(open_view: OpenView, demo: Demo) -> None:
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"}}
    secret["metadata"] = {"name": "masked", "namespace": "default"}
    await demo.client.create(Unstructured(secret))
    async with open_view("#/object/core/v1/secrets/default/masked?tab=yaml") as view:
        await view.see("(7 bytes, hidden)", within=".cm-content")
        await view.open("#/object/core/v1/secrets/default/masked?tab=data")
        row = view.page.locator("tr", has_text="password")
        await row.get_by_text("7 bytes").wait_for()
        assert "hunter2" not in await view.page.content()
        await row.get_by_role("button", name="Reveal").click()
        await row.get_by_text("hunter2").wait_for()
        await view.open("#/object/core/v1/secrets/default/masked?tab=yaml")
        await view.page.get_by_role("button", name="Reveal values").click()
        await view.see("aHVudGVyMg==", within=".cm-content")
    change = patches.merge_patch({"metadata": {"labels": {"a": "b"}}})
    await demo.client.patch("secrets", "masked", change, namespace="default")
    await demo.client.delete("secrets", "masked", namespace="default")


async def test_logs_of_all_pods_of_a_workload(open_view: OpenView, demo: Demo) -> None:
    pods = await demo.client.list(Pod, namespace="default", labels="app.kubernetes.io/instance=cart")
    names = [each.name for each in pods]
    for name in names:
        demo.server.pods.write_log(name, f"hello of {name}\n\x1b[31mred\x1b[0m line\n")
    async with open_view("#/object/apps/v1/deployments/default/cart?tab=pod-logs") as view:
        for name in names:
            await view.see(f"hello of {name}", within=".log-box")
        await view.page.locator(".log-line .ansi-1", has_text="red").first.wait_for()
        await view.page.get_by_label("Search lines").fill(names[0])
        await view.count(".log-line", 1)
        await view.page.locator(".log-line mark", has_text=names[0]).wait_for()
