"""When `kubewright run` starts a control plane of its own, and manifests that `kubewright up` applies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kubewright.cli.operators.session import needs_session, session_process
from kubewright.client import load_config

SOURCE = str(Path(__file__).parents[2] / "src")
OPTIONS = {"kubeconfig": None, "context": "", "development": None}


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        ({}, {}, True),
        ({"development": True}, {}, True),
        ({"development": False}, {}, False),
        ({"kubeconfig": "x"}, {}, False),
        ({"context": "kind"}, {}, False),
        ({}, {"KUBECONFIG": "x"}, False),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
    ],
)
def test_only_without_a_configured_cluster(
    tmp_path: Path, options: dict[str, object], environ: dict[str, str], expected: bool
) -> None:
    assert needs_session({**OPTIONS, **options}, {"HOME": str(tmp_path), **environ}) is expected


def test_not_with_a_kubeconfig_in_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("")
    assert not needs_session(OPTIONS, {"HOME": str(tmp_path)})


def test_the_process_of_a_session_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    with session_process(OPTIONS) as variables:
        assert variables == {"KUBECONFIG": str(tmp_path / "kubeconfig"), "KUBEWRIGHT_DEVELOPMENT": "true"}
        server = urlsplit(load_config(variables["KUBECONFIG"]).server)
        assert server.hostname is not None
        assert server.port is not None
        socket.create_connection((server.hostname, server.port)).close()
        with session_process(OPTIONS) as other:  # uses the running control plane
            assert other == variables
        socket.create_connection((server.hostname, server.port)).close()
    with pytest.raises(OSError):
        socket.create_connection((server.hostname, server.port))


def test_up_applies_manifests(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"
    )
    (tmp_path / "wrong.yaml").write_text("apiVersion: v1\nkind: Nothing\nmetadata: {name: a}\n")
    command = [sys.executable, "-m", "kubewright.cli", "up", "--apply", "a.yaml"]
    variables = {**os.environ, "PYTHONPATH": SOURCE}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=variables)
    assert process.stdout is not None
    assert process.stdout.readline() == "applied 2 objects of a.yaml\n"
    assert "is ready" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    failed = subprocess.run(
        [*command, "--apply", "wrong.yaml"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert "Error: cannot apply wrong.yaml: " in failed.stderr
