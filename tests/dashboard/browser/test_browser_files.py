"""Recordings, plans and exploration reports, opened in the page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.test_object_evidence import span

from kubewright.explore.reports.model import ExplorationReport, ViolationReport
from kubewright.recording import RecordedChange, Recording, write_recording
from kubewright.rehearse.plans.model import Plan, PlannedChange
from kubewright.rehearse.plans.object_changes import FieldChange
from kubewright.rehearse.snapshot import ObjectName

from .conftest import OpenView, View

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def choose(view: View, path: Path) -> None:
    await view.page.locator("input[type=file]").set_input_files(path)


def _map(**data: str) -> dict[str, Any]:
    metadata = {"name": "settings", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_a_recording_is_read_with_a_time_slider(open_view: OpenView, tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    reconcile = {**span(1, "broken", error="no connection"), "wait": 0.0, "duration": 1.0}
    milliseconds = start.timestamp() * 1000
    reconcile |= {"queued": milliseconds + 1000, "started": milliseconds + 1000, "ended": milliseconds + 2000}
    recording = Recording(
        objects=[_map(colour="red")],
        changes=[
            RecordedChange(at=2.0, type="MODIFIED", object=_map(colour="green")),
            RecordedChange(at=8.0, type="MODIFIED", object=_map(colour="blue")),
        ],
        reconciles=[reconcile],
        start=start,
        duration=10.0,
    )
    path = tmp_path / "incident.recording.gz"
    write_recording(recording, path)
    async with open_view("#/files") as view:
        await choose(view, path)
        await view.page.locator(".diff-added", has_text="colour: blue").wait_for()
        await view.page.locator(".lane-label", has_text="broken").wait_for()
        slider = view.page.get_by_label("Time", exact=True)
        await slider.fill("5")
        await view.page.locator(".diff-added", has_text="colour: green").wait_for()
        await slider.fill("1")
        await view.page.locator("pre", has_text="colour: red").wait_for()
        assert "at=1" in view.page.url


async def test_a_plan_and_an_exploration_report_are_shown(open_view: OpenView, tmp_path: Path) -> None:
    change = PlannedChange(
        name=ObjectName("apps", "Deployment", "default", "web"),
        verb="change",
        fields=[FieldChange("spec.replicas", 1, 3)],
        disruption="restarts 3 pods",
    )
    plan = Plan(operator="shop:operator", source="staging.json", objects=2, kubernetes_version="1.37")
    plan.changes = [change]
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    violation = ViolationReport(
        scenario="create", source="shop.py:1", rule="converges", problems=["two pods"], faults=["crash"]
    )
    report = ExplorationReport(operator="shop:operator", scenarios=["create"], violations=[violation])
    (tmp_path / "report.json").write_text(report.to_json())
    (tmp_path / "other.json").write_text("[1]")
    async with open_view("#/files") as view:
        await choose(view, tmp_path / "plan.json")
        row = view.page.locator("tr", has_text="spec.replicas")
        await row.get_by_text(re.compile("^3$")).wait_for()
        await view.see("restarts 3 pods")
        await choose(view, tmp_path / "report.json")
        await view.see("create: converges")
        await view.see("two pods")
        await choose(view, tmp_path / "other.json")
        await view.see("other.json is not a recording, a plan or an exploration report")
