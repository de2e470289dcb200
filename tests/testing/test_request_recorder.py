"""Requests of a test run, compared with versions of Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kubewright.api.core.v1 import Container, Pod, PodSpec
from kubewright.api.meta import ObjectMeta
from kubewright.cli import main
from kubewright.client import Client
from kubewright.testing.request_recorder import RequestRecorder


async def test_a_recorded_run(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = RequestRecorder()
    recorded = recorder.wrap(client)
    spec = PodSpec(containers=[Container(name="a", image="a")], hostname_override="b")
    created = await recorded.create(Pod(metadata=ObjectMeta(name="a", namespace="default"), spec=spec))
    assert created.spec is not None
    assert created.spec.hostname_override == "b"
    recorder.check("1.35-1.37")
    with pytest.raises(
        AssertionError, match=r"Pod\.spec\.hostnameOverride: Kubernetes 1\.33 lacks the field"
    ):
        recorder.check("1.33-1.37")
    recorder.write(tmp_path / "requests.jsonl")
    (tmp_path / "empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    arguments = ["check", "empty", "--recording", "requests.jsonl", "--kubernetes"]
    done = CliRunner().invoke(main, [*arguments, "1.33"])
    assert done.exit_code == 1
    assert (
        "Error: requests.jsonl:1: Pod.spec.hostnameOverride: Kubernetes 1.33 lacks the field" in done.output
    )
    assert CliRunner().invoke(main, [*arguments, "1.37"]).exit_code == 0


def test_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "role.yaml").write_text(
        "# a comment\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
        "rules:\n- {apiGroups: [storage.k8s.io], resources: [volumeattributesclasses], verbs: [get]}\n"
    )
    arguments = ["check", "empty", "--manifests", "role.yaml"]
    done = CliRunner().invoke(main, [*arguments, "--kubernetes", "all"])
    assert done.exit_code == 1
    expected = (
        "role.yaml:2: volumeattributesclasses.storage.k8s.io: Kubernetes 1.33 does not serve the resource"
    )
    assert expected in done.output
    assert CliRunner().invoke(main, [*arguments, "--kubernetes", "1.2"]).exit_code == 2
    assert CliRunner().invoke(main, arguments).exit_code == 2
