"""`kubewright plan --against` in CI form: an upgrade that would harm a cluster has its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubewright.rehearse import write_export

from .cron_jobs import GROUP, cluster, commit, edit, make_project, run_plan

RECREATE = """        jobs = await self._jobs(cron_job, ctx)
        for job in [each for each in jobs.active if "team" not in (each.metadata.labels or {})]:
            due = _scheduled_at(job, ctx)
            assert due is not None
            again = ctx.own(job_for(cron_job, due))
            again.metadata.labels = {**(again.metadata.labels or {}), "team": "batch"}
            await ctx.client.delete(job, propagation="Background", missing_ok=True)
            await ctx.client.create(again)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_export(cluster(), tmp_path / "cluster.json")
    return make_project(tmp_path)


def test_an_upgrade_that_changes_nothing_has_exit_code_0(project: Path) -> None:
    controller = project / "cronjob" / "controller.py"
    edit(controller, "A reconcile lists the Jobs", "Each reconcile lists the Jobs")
    found = run_plan(project, "cronjob:operator", "--from", "../cluster.json", "--against", "v1")
    assert (found.returncode, found.stderr) == (0, ""), found.stdout
    assert "no changes" in found.stdout


def test_an_upgrade_that_recreates_running_jobs_is_disruptive(project: Path) -> None:
    edit(project / "cronjob" / "controller.py", "        jobs = await self._jobs(cron_job, ctx)\n", RECREATE)
    report, markdown = project / "plan.json", project / "plan.md"
    found = run_plan(
        project,
        *("cronjob:operator", "--from", "../cluster.json", "--against", "v1"),
        *("--json", str(report), "--markdown", str(markdown)),
    )
    assert found.returncode == 3, found.stdout + found.stderr
    plan = json.loads(report.read_text())
    assert (plan["exitCode"], plan["errors"], plan["permissions"], plan["calls"]) == (3, [], [], [])
    job = next(each for each in plan["changes"] if each["kind"] == "Job")
    assert (job["name"], job["verb"], job["actor"]) == ("hello-1772359200", "recreate", "operator")
    assert job["disruption"] == "restarts a running Job (1 pod)"
    assert job["owners"] == [f"CronJob.{GROUP} default/hello"]
    assert {"path": ".metadata.labels.team", "after": "batch"} in job["fields"]
    assert "± Job.batch default/hello-1772359200 deleted and created again" in found.stdout
    assert "Running workloads would be disrupted" in markdown.read_text()


def test_a_crd_change_that_rejects_stored_objects_is_disruptive(project: Path) -> None:
    v1 = project / "cronjob" / "v1.py"
    edit(v1, "    schedule: str\n", "    schedule: Annotated[str, MaxLen(6)]\n")
    edit(v1, "ListMap, MaxItems", "ListMap, MaxItems, MaxLen")
    found = run_plan(
        project, "cronjob:operator", "--from", "../cluster.json", "--against", "v1", "--json", "-"
    )
    assert found.returncode == 3, found.stdout + found.stderr
    plan = json.loads(found.stdout)
    [rejected] = plan["rejected"]
    assert rejected["object"] == f"CronJob.{GROUP} default/hello"
    assert "spec.schedule" in rejected["errors"][0]
    assert any(each["isBreaking"] and each["path"] == ".spec.schedule" for each in plan["schema"])


def test_a_removed_field_of_stored_objects_is_reported(project: Path) -> None:
    v1 = project / "cronjob" / "v1.py"
    edit(
        v1,
        "    failed_jobs_history_limit: Annotated[Int32, Ge(0)] | None = None\n",
        "    failed_limit: Annotated[Int32, Ge(0)] | None = None\n",
    )
    edit(project / "cronjob" / "controller.py", "spec.failed_jobs_history_limit", "spec.failed_limit")
    webhooks = project / "cronjob" / "webhooks.py"
    webhooks.write_text(webhooks.read_text().replace("failed_jobs_history_limit", "failed_limit"))
    commit(project, "v2")
    found = run_plan(project, "cronjob:operator", "--from", "../cluster.json", "--json", "-")
    plan = json.loads(found.stdout)
    assert [each["lost"] for each in plan["rejected"]] == [["spec.failedJobsHistoryLimit"]]
    assert found.returncode == 3


def test_a_previous_version_that_does_not_exist_is_an_error(project: Path) -> None:
    found = run_plan(project, "cronjob:operator", "--from", "../cluster.json", "--against", "v9")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "Error: v9: it is not a revision, a wheel or a directory\n"
