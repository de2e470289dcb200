"""`kubewright create api --from-crd` in a project."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubewright.api import Unstructured
from kubewright.manifests import compare_crds
from kubewright.testing.server import start_test_server

from .in_process import kubewright

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "tests" / "scaffold" / "crds"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a new project with several API groups."""
    done = kubewright(tmp_path, "init", "--name", "issuance", "--domain", "cert-manager.io", "--multigroup")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_own_kinds_are_part_of_the_project(project: Path) -> None:
    for name in ("certificate", "machine"):
        done = kubewright(project, "create", "api", "--from-crd", str(CRDS / f"{name}.yaml"))
        assert done.returncode == 0, done.stderr
    assert "created src/issuance/cluster_x_k8s_io/machine_v1beta2.py" in done.stdout
    assert "created src/issuance/cluster_x_k8s_io/machine_conversion.py" in done.stdout
    for name, file in (
        ("certificate", "cert-manager.io_certificates"),
        ("machine", "cluster.x-k8s.io_machines"),
    ):
        before = yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8"))
        after = yaml.safe_load((project / "config" / "crd" / f"{file}.yaml").read_text(encoding="utf-8"))
        assert compare_crds(before, after) == []
    assert kubewright(project, "manifests", "--check").returncode == 0
    # No copy of the fields converts between the versions of a Machine: the user has to write rules.
    done = kubewright(project, "check")
    assert "objects of v1beta1 cannot be converted to v1beta2" in done.stdout
    assert "$.spec.bootstrap.configRef" in done.stdout
    pytest_command = ["pytest", "-q", "-p", "no:cacheprovider", "--ignore-glob=*test_machine_conversion.py"]
    checks = (["ruff", "check"], ["ruff", "format", "--check"], pytest_command)
    for check in checks:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(project / "src")])}
        command = [sys.executable, "-m", *check, str(project)]
        ran = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_external_kinds_have_no_manifest(project: Path) -> None:
    text = (CRDS / "httproute.yaml").read_text(encoding="utf-8")
    done = kubewright(
        project, "create", "api", "--from-crd", "-", "--external", "--output", "json", stdin=text
    )
    assert done.returncode == 0, done.stderr
    created = json.loads(done.stdout)["created"]
    module = "src/issuance/gateway_networking_k8s_io/http_route_v1.py"
    assert module in created
    assert not [path for path in created if path.startswith("config/crd/gateway")]
    assert "external=True" in (project / module).read_text(encoding="utf-8")


def test_the_same_kind_twice_is_an_error(project: Path) -> None:
    arguments = ("create", "api", "--from-crd", str(CRDS / "certificate.yaml"), "--no-manifests")
    assert kubewright(project, *arguments).returncode == 0
    done = kubewright(project, *arguments)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: cert-manager.io/v1 Certificate already exists; choose another version or kind\n"
    )


def test_types_without_a_project(tmp_path: Path) -> None:
    source = str(CRDS / "machine.yaml")
    done = kubewright(tmp_path, "create", "api", "--from-crd", source, "--types-only", "types")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "created types/machine_v1beta1.py\ncreated types/machine_v1beta2.py\n"


async def test_kinds_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_test_server("tls", None, controllers=False) as server:
        crd = yaml.safe_load((CRDS / "certificate.yaml").read_text(encoding="utf-8"))
        await server.client().create(Unstructured(crd))
        monkeypatch.setenv("KUBECONFIG", str(server.plane.kubeconfig))
        create = ("create", "api", "--from-crd", "cluster", "--types-only", "types")
        done = await asyncio.to_thread(kubewright, tmp_path, *create, "--kind", "Certificate")
        assert done.stdout == "created types/certificate_v1.py\n", done.stderr
        missing = await asyncio.to_thread(kubewright, tmp_path, *create, "--kind", "Shop")
        assert "no CustomResourceDefinition of Shop; found: Certificate" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--from-crd", "missing.yaml"], 1, "cannot read missing.yaml"),
        (["--from-crd", "cluster"], 2, "--from-crd cluster requires --kind"),
        (["--external", "--version", "v1", "--kind", "Shop"], 2, "require --from-crd"),
        (["--kind", "Shop"], 2, "Missing option '--version'"),
    ],
)
def test_usage(project: Path, arguments: list[str], code: int, message: str) -> None:
    done = kubewright(project, "create", "api", *arguments)
    assert done.returncode == code
    assert message in done.stderr
