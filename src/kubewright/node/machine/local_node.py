"""`LocalNode`: this machine as a node: containerd, kubelet and kube-proxy as child processes.

Everything is below one directory: configuration, certificates, images, volumes, logs. containerd is one of
its own, so other containers of the machine are not touched; of the machine itself only the network (a bridge
for pods, rules of kube-proxy) and cgroups change. The kubelet gets its client certificate from the control
plane; it registers the node, and once that has a pod CIDR, the network configuration is written and the node
becomes ready. `stop` ends the programs and removes containers and mounts; images and logs stay.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kubewright.api.core.v1 import Node
from kubewright.client import Client
from kubewright.tls.certificates import KeyPair, write_private

from .configuration import (
    BRIDGE,
    NODE_GROUP,
    NODE_USER_PREFIX,
    PROXY_USER,
    containerd_configuration,
    kube_proxy_configuration,
    kubelet_configuration,
    local_kubelet_settings,
    network_configuration,
    server_kubeconfig,
    to_toml,
)
from .images import ImageError, ctr, remove_containers
from .programs import Programs
from .supervisor import ChildProcess

logger = logging.getLogger(__name__)

START_TIMEOUT = 60.0
CGROUPS: Final = Path("/sys/fs/cgroup")
SOCKET_NAME: Final = "containerd.sock"
MAX_SOCKET_PATH: Final = 100
"""Bytes of a path to a socket, below the limit of Linux."""


@dataclass(frozen=True)
class NodeSettings:
    """What a node knows of its cluster."""

    name: str
    address: str
    """IP address of the node."""
    server: str
    """URL of the control plane."""
    ca: bytes
    """Certificate authority (PEM) of the control plane."""
    cluster_cidr: str
    dns: str
    """Cluster IP of DNS."""
    domain: str = "cluster.local"
    pause_image: str = ""
    """Image of the first container of each pod; by default that of containerd."""


class NodeError(Exception):
    """The node could not be started; the message names the log file."""


class LocalNode:
    """A node on this machine. Start and stop it."""

    def __init__(
        self,
        programs: Programs,
        settings: NodeSettings,
        *,
        directory: Path,
        issue: Callable[[str, Sequence[str]], KeyPair],
    ) -> None:
        """`issue` returns a client certificate for a user and its groups."""
        self.programs = programs
        self.settings = settings
        self.directory = directory.absolute()
        self.socket = node_socket(self.directory)
        """The socket of containerd."""
        self._issue = issue
        self.processes: list[ChildProcess] = []
        """The programs, in the order of their start."""

    async def start(self, client: Client) -> None:
        """Start the programs; return when the node is ready. Raises `NodeError` or `OSError`."""
        if len(str(self.socket)) > MAX_SOCKET_PATH:
            raise NodeError(f"the path {self.directory} is too long for sockets; choose a shorter directory")
        self._write_files()
        try:
            await self._start(client)
        except BaseException:
            await self.stop()
            raise

    async def _start(self, client: Client) -> None:
        directory, programs = self.directory, self.programs
        self._run("containerd", programs.containerd, "--config", directory / "containerd.toml")
        await self._wait("containerd", self._has_containerd)
        await remove_containers(programs.ctr, self.socket)
        self._run(
            "kubelet",
            programs.kubelet,
            f"--config={directory}/kubelet.yaml",
            f"--kubeconfig={directory}/kubelet.conf",
            f"--cert-dir={directory}/pki",
            f"--root-dir={directory}/kubelet",
            f"--hostname-override={self.settings.name}",
            f"--node-ip={self.settings.address}",
        )
        await self._wait("kubelet", lambda: self._configure_network(client))
        if programs.kube_proxy is not None:
            self._run("kube-proxy", programs.kube_proxy, f"--config={directory}/kube-proxy.yaml")
        await self._wait("kubelet", lambda: self._is_ready(client))

    async def stop(self) -> None:
        """Stop the programs, and remove containers, mounts and rules of Services."""
        by_name = {each.name: each for each in self.processes}
        for name in ("kube-proxy", "kubelet"):
            if name in by_name:
                await by_name[name].stop()
        if "kube-proxy" in by_name:
            await _run_quietly(str(self.programs.kube_proxy), "--cleanup")
        if "containerd" in by_name:
            with suppress(ImageError, OSError):
                await remove_containers(self.programs.ctr, self.socket)
            await by_name["containerd"].stop()
        self.processes.clear()
        _end_shims(self.directory)
        await unmount_below(self.directory)
        await _run_quietly("ip", "link", "delete", BRIDGE)

    def _run(self, name: str, *command: str | Path) -> None:
        process = ChildProcess(name, command, log=self.directory / "log" / f"{name}.log")
        self.processes.append(process)
        process.start()

    async def _wait(self, name: str, check: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while not await check():  # noqa: ASYNC110 - the state is outside of this process
                    await asyncio.sleep(0.2)
        except TimeoutError:
            log = self.directory / "log" / f"{name}.log"
            raise NodeError(
                f"{name} is not ready after {START_TIMEOUT:g} s: {last_error(log)}; see {log}"
            ) from None

    async def _has_containerd(self) -> bool:
        if not self.socket.exists():
            return False
        try:
            await ctr(self.programs.ctr, self.socket, "version")
        except ImageError:
            return False
        return True

    async def _configure_network(self, client: Client) -> bool:
        node = await client.get_or_none(Node, self.settings.name)
        cidrs = (node.spec.pod_cidrs if node is not None and node.spec is not None else None) or []
        if not cidrs:
            return False
        config = network_configuration(cidrs, data=str(self.directory / "addresses"))
        text = json.dumps(config, indent=2).encode()
        write_private(self.directory / "cni" / "10-kubewright.conflist", text, mode=0o644)
        return True

    async def _is_ready(self, client: Client) -> bool:
        node = await client.get_or_none(Node, self.settings.name)
        conditions = (node.status.conditions if node is not None and node.status is not None else None) or ()
        return any(each.type == "Ready" and each.status == "True" for each in conditions)

    def _write_files(self) -> None:
        directory, settings = self.directory, self.settings
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name in ("run", "log", "pki", "kubelet", "cni", "manifests", "volume-plugins", "addresses"):
            (directory / name).mkdir(mode=0o700, exist_ok=True)
        for name in ("pod-logs", "containerd", "containerd-opt"):
            (directory / name).mkdir(mode=0o711, exist_ok=True)
        # Leases of addresses and the network of an earlier control plane, whose nodes had other ranges.
        (directory / "cni" / "10-kubewright.conflist").unlink(missing_ok=True)
        authority = directory / "ca.crt"
        if not authority.exists() or authority.read_bytes() != settings.ca:
            for file in (directory / "pki").iterdir():
                file.unlink()  # certificates of another cluster, which the kubelet would use
            write_private(authority, settings.ca, mode=0o644)
        kubelet = kubelet_configuration(
            dns=settings.dns, domain=settings.domain, ca_file=f"{directory}/ca.crt"
        ) | local_kubelet_settings(directory, socket=self.socket, cgroup_root=self._cgroup_root())
        user = self._issue(f"{NODE_USER_PREFIX}{settings.name}", (NODE_GROUP,))
        proxy_user = self._issue(PROXY_USER, ())
        proxy = kube_proxy_configuration(
            kubeconfig=f"{directory}/kube-proxy.conf",
            cluster_cidr=settings.cluster_cidr,
            node=settings.name,
            changes_sysctls=False,
        )
        containerd = containerd_configuration(
            directory,
            socket=self.socket,
            cni_plugins=str(self.programs.cni_plugins),
            pause_image=settings.pause_image,
            runc=str(self.programs.runc),
        )
        for name, text in {
            "kubelet.yaml": yaml.safe_dump(kubelet),
            "kubelet.conf": yaml.safe_dump(server_kubeconfig(settings.server, settings.ca, client=user)),
            "kube-proxy.yaml": yaml.safe_dump(proxy),
            "kube-proxy.conf": yaml.safe_dump(
                server_kubeconfig(settings.server, settings.ca, client=proxy_user)
            ),
            "containerd.toml": to_toml(containerd),
        }.items():
            write_private(directory / name, text.encode())

    def _cgroup_root(self) -> str:
        """Create a cgroup for the pods of this node, so that another kubelet does not remove them.

        In the hierarchies of version 1, which need nothing enabled; in version 2 pods are below `/kubepods`.
        """
        if (CGROUPS / "cgroup.controllers").exists():
            return ""
        name = re.sub(r"[^a-z0-9]+", "-", f"kubewright-{self.settings.name}")
        for hierarchy in sorted(CGROUPS.iterdir()):
            if hierarchy.is_dir() and (hierarchy / "cgroup.procs").exists() and hierarchy.name != "unified":
                cgroup = hierarchy / name
                cgroup.mkdir(exist_ok=True)
                for setting in ("cpuset.cpus", "cpuset.mems"):
                    if (cgroup / setting).exists():
                        (cgroup / setting).write_text((hierarchy / setting).read_text())
        return f"/{name}"


def node_socket(directory: Path) -> Path:
    """Return the socket of the containerd of a node."""
    return directory.absolute() / "run" / SOCKET_NAME


def last_error(log: Path) -> str:
    """Return the last line of a log that reports an error; empty without one."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65_536))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    errors = [
        each for each in lines if each.startswith(("E", "F")) or "level=error" in each or "rror:" in each
    ]
    return (errors or lines or [""])[-1][:500]


async def unmount_below(directory: Path) -> None:
    """Unmount what is mounted below a directory, the last first."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()  # noqa: ASYNC240 - in memory
    except OSError:
        return
    prefix = f"{directory}/"
    points = [line.split()[1].encode().decode("unicode_escape") for line in lines]
    for point in reversed([each for each in points if each.startswith(prefix)]):
        await _run_quietly("umount", "--lazy", point)


def _end_shims(directory: Path) -> None:
    """End the processes that keep containers of this containerd running."""
    socket = str(node_socket(directory))
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = process.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "containerd-shim" in arguments[0] and socket in arguments:
            with suppress(OSError):
                os.kill(int(process.parent.name), signal.SIGKILL)


async def _run_quietly(*command: str) -> None:
    """Run a command whose failure does not matter."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(START_TIMEOUT):
            await process.wait()
    except (OSError, TimeoutError):
        return
