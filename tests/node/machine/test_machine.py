"""Files, programs and processes of a node of this machine, without starting a kubelet."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.cli.in_process import kubewright
from tests.waiting import eventually

from kubewright.controlplane import ControlPlane
from kubewright.node.machine.configuration import containerd_configuration, network_configuration, to_toml
from kubewright.node.machine.local_node import last_error
from kubewright.node.machine.programs import MissingPrograms, find_programs
from kubewright.node.machine.supervisor import ChildProcess
from kubewright.testing.real_nodes import why_unavailable


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_missing_programs_are_named_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("_SEARCHED", "CNI_DIRECTORIES"):
        monkeypatch.setattr(f"kubewright.node.machine.programs.{name}", (str(tmp_path / "none"),))
    kubelet = program(tmp_path / "kubelet")
    with pytest.raises(MissingPrograms) as error:
        find_programs(kubelet)
    assert "runc (package runc)" in str(error.value)
    assert "containernetworking-plugins" in str(error.value)
    assert "apt-get install containerd runc" in str(error.value)
    for name in ("containerd", "ctr", "runc", "iptables", "ip", "mount"):
        program(tmp_path / name)
    for name in ("bridge", "host-local", "loopback", "portmap"):
        program(tmp_path / "none" / name)
    found = find_programs(kubelet)
    assert found.kube_proxy is None
    program(tmp_path / "kube-proxy")
    assert find_programs(kubelet).kube_proxy == tmp_path / "kube-proxy"
    with pytest.raises(MissingPrograms, match="/nowhere/kubelet"):
        find_programs(Path("/nowhere/kubelet"))


def test_real_nodes_have_to_be_requested() -> None:
    assert "KUBEWRIGHT_KUBELET" in why_unavailable({})


def test_containerd_configuration_is_toml(tmp_path: Path) -> None:
    config = containerd_configuration(
        tmp_path, socket=tmp_path / 'a "quoted" socket', cni_plugins="/opt/cni/bin", pause_image="pause:1"
    )
    assert tomllib.loads(to_toml(config)) == config
    assert config["plugins"]["io.containerd.grpc.v1.cri"]["sandbox_image"] == "pause:1"


def test_network_has_a_range_and_a_route_per_family() -> None:
    ipam = network_configuration(["10.244.0.0/24", "fd00::/64"])["plugins"][0]["ipam"]
    assert [each[0]["subnet"] for each in ipam["ranges"]] == ["10.244.0.0/24", "fd00::/64"]
    assert [each["dst"] for each in ipam["routes"]] == ["0.0.0.0/0", "::/0"]


async def test_child_process_is_restarted_and_stopped(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    child = ChildProcess("child", [sys.executable, "-c", script], log=log)
    child.start()

    def pids() -> list[int]:
        return [int(each) for each in log.read_text().split()] if log.exists() else []

    (first,) = await eventually(pids)
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: len(pids()) == 2)
    second = pids()[1]
    # The child can print its number before the process that started it knows it.
    await eventually(lambda: (child.pid, child.starts) == (second, 2))
    await child.stop()
    assert child.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


def test_last_error_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    assert last_error(log) == ""
    log.write_text("I1118 started\nE1118 cannot start\nI1118 bye\n")
    assert last_error(log) == "E1118 cannot start"


async def test_node_config_writes_private_files(tmp_path: Path) -> None:
    async with ControlPlane(real_nodes=True, dns=False) as plane:
        arguments = ("node", "config", "worker-1", "-o", str(tmp_path / "out"), "--pod-cidr", "10.244.7.0/24")
        done = await asyncio.to_thread(
            kubewright, tmp_path, *arguments, "--kubeconfig", str(plane.kubeconfig)
        )
        assert done.returncode == 0, done.stderr
        url = plane.advertised_url
    out = tmp_path / "out"
    bootstrap = yaml.safe_load((out / "bootstrap-kubelet.conf").read_text())
    assert bootstrap["clusters"][0]["cluster"]["server"] == url
    token = bootstrap["users"][0]["user"]["token"]
    assert token not in done.stdout + done.stderr
    kubelet = yaml.safe_load((out / "kubelet.yaml").read_text())
    assert kubelet["authentication"]["x509"]["clientCAFile"] == "/etc/kubernetes/pki/ca.crt"
    assert yaml.safe_load((out / "kube-proxy.yaml").read_text())["hostnameOverride"] == "worker-1"
    network = json.loads((out / "cni/net.d/10-kubewright.conflist").read_text())
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.7.0/24"}]]
    assert tomllib.loads((out / "containerd/config.toml").read_text())["version"] == 2
    assert {path.stat().st_mode & 0o777 for path in out.rglob("*") if path.is_file()} == {0o600}


def test_errors_are_one_line(tmp_path: Path) -> None:
    missing = kubewright(tmp_path, "up", "--kubelet", "/nowhere/kubelet", "--no-dns")
    assert missing.returncode != 0
    assert "/nowhere/kubelet" in missing.stderr
    for arguments in (("load", "image", "none.tar", "--node", "missing"),):
        done = kubewright(tmp_path, *arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert len(done.stderr.strip().splitlines()) == 1
