"""The programs that a node needs on this machine, and the packages that have them. Nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .configuration import CNI_DIRECTORIES

PACKAGES: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "mount": "mount",
}
"""Programs in the search path, and the packages of Debian and its relatives that have them."""
PLUGINS: Final = ("bridge", "host-local", "loopback", "portmap")
PLUGIN_PACKAGE: Final = "containernetworking-plugins"
_SEARCHED: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Directories of programs for administrators, which the search path of others may not have."""


class MissingPrograms(Exception):
    """Programs that a node needs are not installed; the message names them and their packages."""


@dataclass(frozen=True)
class Programs:
    """Paths of the programs of a node."""

    kubelet: Path
    containerd: Path
    ctr: Path
    runc: Path
    cni_plugins: Path
    kube_proxy: Path | None = None
    """Without it, cluster IPs of Services are not reachable."""


def find_programs(kubelet: Path, kube_proxy: Path | None = None) -> Programs:
    """Return the programs for a kubelet; kube-proxy is also searched beside it. Raises `MissingPrograms`."""
    missing: dict[str, str] = {}
    if not _is_program(kubelet):
        missing[str(kubelet)] = "kubelet"
    found = {name: find_program(name) for name in PACKAGES}
    missing |= {name: PACKAGES[name] for name, path in found.items() if path is None}
    plugins = next((each for each in map(Path, CNI_DIRECTORIES) if _has_plugins(each)), None)
    if plugins is None:
        missing[f"the network plug-ins {', '.join(PLUGINS)}"] = PLUGIN_PACKAGE
    if missing or plugins is None:
        names = ", ".join(f"{name} (package {package})" for name, package in missing.items())
        packages = " ".join(dict.fromkeys(missing.values()))
        raise MissingPrograms(f"a node needs {names}; install with: apt-get install {packages}")
    if kube_proxy is not None and not _is_program(kube_proxy):
        raise MissingPrograms(f"{kube_proxy} is not a program; it is part of the server files of Kubernetes")
    beside = kubelet.with_name("kube-proxy")
    proxy = kube_proxy or (beside if _is_program(beside) else find_program("kube-proxy"))
    containerd, ctr, runc = found["containerd"], found["ctr"], found["runc"]
    assert containerd is not None
    assert ctr is not None
    assert runc is not None
    return Programs(kubelet, containerd, ctr, runc, plugins, proxy)


def find_program(name: str) -> Path | None:
    """Return the path of a program, also one for administrators."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SEARCHED))
    found = shutil.which(name, path=path)
    return Path(found) if found else None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _has_plugins(directory: Path) -> bool:
    return all(_is_program(directory / name) for name in PLUGINS)
