"""`kubewright envtest`: the executables and what the command prints."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubewright.cli import main


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["envtest", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_directory_has_what_envtest_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "kubectl").write_text("#!/bin/sh\n")
    (tools / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    target = tmp_path / "bin"
    code, output, _ = run("--bin-dir", str(target))
    assert code == 0
    assert f"KUBEBUILDER_ASSETS={target} go test" in output
    assert sorted(path.name for path in target.iterdir()) == ["etcd", "kube-apiserver", "kubectl"]
    assert (target / "kubectl").resolve() == tools / "kubectl"
    done = subprocess.run([target / "kube-apiserver", "--version"], capture_output=True, check=True)
    assert done.stdout.startswith(b"Kubernetes v1.")
    assert run("--bin-dir", str(target))[0] == 0  # a second time


def test_a_makefile_of_kubebuilder_can_call_it(tmp_path: Path) -> None:
    assert run("use", "1.36.0", "--bin-dir", str(tmp_path), "-p", "path") == (0, str(tmp_path), "")
    code, output, error = run("use", "1.30", "--bin-dir", str(tmp_path), "-p", "env")
    assert (code, output) == (0, f"export KUBEBUILDER_ASSETS='{tmp_path}'\n")
    assert "version 1.30 is not available; the API server serves 1." in error
    assert run("list", "--bin-dir", str(tmp_path))[0] == 2


def test_executables_of_other_programs_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_bytes(b"\x7fELF")
    code, _, error = run("--bin-dir", str(tmp_path))
    assert code == 1
    assert error == (
        f"Error: {tmp_path / 'etcd'} exists and was not written by Kubewright; use another --bin-dir, "
        "or --force to replace it\n"
    )
    assert (tmp_path / "etcd").read_bytes() == b"\x7fELF"
    assert run("--bin-dir", str(tmp_path), "--force")[0] == 0
