"""Options of `kubewright up`; an error is one message that names the flag or the file."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubewright.cli import main
from kubewright.cli.clusters.up import up_command
from kubewright.controlplane import ControlPlane
from kubewright.storage import SQLiteStorage


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--kubeconfig", "no/kc"),
            "'--kubeconfig': the directory no of kc does not exist",
        ),
        (("--ready-file", "no/ready"), "'--ready-file': the directory no of ready does not exist"),
        (("--webhook-resolve", "a.b=localhost"), "'a.b=localhost': expected SERVICE.NAMESPACE=URL, as in"),
        (
            ("--webhook-resolve", "a=https://localhost"),
            "'a=https://localhost': expected SERVICE.NAMESPACE=URL",
        ),
        (("--service-cluster-ip-range", "x"), "'--service-cluster-ip-range': 'x' does not appear to be"),
        (("--client-ca-file", "empty"), "empty contains no PEM certificates"),
        (("--token-auth-file", "missing"), "missing: No such file or directory"),
        (("--store", "foo:bar"), "unknown storage 'foo'; use memory:"),
        (("--port", "99999"), "99999 is not in the range"),
        (("--tls-cert-file", "a"), "--tls-cert-file and --tls-private-key-file must be specified together"),
        (
            ("--runtime-config", "apps/v1=no"),
            "'--runtime-config': 'apps/v1=no': expected KEY=true or KEY=false",
        ),
        (
            ("--encryption-provider-config-automatic-reload",),
            "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config",
        ),
        (("--runtime-config", "nosuch/v1=true"), "runtime config: unknown api groups nosuch"),
        (("--audit-log-path", "a.log"), "audit options need --audit-policy-file, and --audit-log-path or"),
        (
            ("--audit-log-path", "a.log", "--audit-policy-file", "missing"),
            "missing: No such file or directory",
        ),
        (("--audit-webhook-batch-max-wait", "soon"), "'soon': expected a duration such as 30s"),
        (("--auth", "rbac,abac"), "'--auth': unknown authorization mode \"abac\"; known are node, rbac"),
    ],
)
def test_usage_errors_name_the_option(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("")
    result = CliRunner().invoke(main, ["up", *arguments])
    assert result.exit_code != 0
    assert complaint in result.output
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    assert "KUBEWRIGHT_TRACEBACK" not in result.output


def test_a_port_in_use_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["up", "--port", str(port)])
    assert result.exit_code == 1
    assert result.output == (
        f"Error: cannot listen on 127.0.0.1:{port}: address already in use; choose another port with --port\n"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "clusters: [{name: prod}, {name: kubewright}]",
            "kubeconfig already exists and is a kubeconfig of prod, kubewright;",
        ),
        ("{{{", "kubeconfig already exists and is not a kubeconfig"),
        ("important notes", "is not a kubeconfig"),
    ],
)
def test_kubeconfigs_of_other_clusters_are_not_overwritten(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    result = CliRunner().invoke(main, ["up"])
    assert result.exit_code == 1
    assert complaint in result.output
    assert path.read_text() == text


def test_the_kubeconfig_of_a_running_control_plane_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def start_second() -> tuple[str, str]:
        async with ControlPlane(kubeconfig=tmp_path / "kubeconfig", controllers=False) as plane:
            result = await asyncio.to_thread(CliRunner().invoke, main, ["up", "--store", "foo:bar"])
            assert result.exit_code == 1
            return plane.url, result.output

    url, output = asyncio.run(start_second())
    assert output == (
        f"Error: kubeconfig belongs to the control plane at {url}, which is running; stop it, or choose "
        "another file with --kubeconfig\n"
    )
    result = CliRunner().invoke(main, ["up", "--store", "foo:bar"])
    assert "unknown storage" in result.output


@pytest.mark.parametrize("text", ["", "clusters: [{name: kubewright, cluster: {server: https://old}}]"])
def test_a_kubeconfig_of_ours_is_replaced(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kubeconfig").write_text(text)
    # The command continues to the next error.
    result = CliRunner().invoke(main, ["up", "--store", "foo:bar"])
    assert "unknown storage" in result.output


def test_a_damaged_store_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def fill() -> None:
        async with SQLiteStorage("state.db") as store:
            await store.create("/a", b"1")

    asyncio.run(fill())
    (tmp_path / "state.db").write_bytes(b"")
    result = CliRunner().invoke(main, ["up", "--store", "sqlite:state.db"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: the store ")
    assert "all changes are missing; restore a backup with 'kubewright restore'" in result.output
    assert "--accept-data-loss" in result.output
    assert result.output.count("\n") == 1


def test_the_ready_file_is_not_written_through_a_symlink(tmp_path: Path) -> None:
    from kubewright.cli.clusters.up import _write_atomically

    victim = tmp_path / "victim"
    victim.write_text("precious")
    ready = tmp_path / "ready"
    ready.symlink_to(victim)
    (tmp_path / f".ready.{os.getpid()}").symlink_to(victim)
    _write_atomically(ready, "https://127.0.0.1:6443\n")
    assert victim.read_text() == "precious"
    assert not ready.is_symlink()
    assert ready.read_text() == "https://127.0.0.1:6443\n"


@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [((), 1), (("--no-controllers",), 0), (("--nodes", "0"), 0), (("--nodes", "3"), 3)],
)
def test_nodes(arguments: tuple[str, ...], nodes: int) -> None:
    assert up_command.make_context("up", list(arguments)).params["options"].nodes == nodes
