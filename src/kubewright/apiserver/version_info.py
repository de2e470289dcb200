"""The document at `/version`."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Self

from kubewright.api.kubernetes_version import NEWEST, KubernetesVersion

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """The Kubernetes version whose API the server implements; clients compare it with theirs."""

    major: str = "1"
    minor: str = str(NEWEST.minor)
    git_version: str = f"v{NEWEST}.0"
    """Without a build suffix, which some clients reject."""
    git_commit: str = "kubewright"
    """By which `kubewright run` recognizes its own control plane."""

    @classmethod
    def of(cls, version: KubernetesVersion) -> Self:
        """Return the document of a version."""
        return cls(minor=str(version.minor), git_version=f"v{version}.0")

    def to_dict(self) -> dict[str, str]:
        """Return the body of `/version`."""
        machine = platform.machine()
        return {
            "major": self.major,
            "minor": self.minor,
            "emulationMajor": self.major,
            "emulationMinor": self.minor,
            "minCompatibilityMajor": self.major,
            "minCompatibilityMinor": str(max(int(self.minor) - 1, 0)) if self.minor.isdigit() else self.minor,
            "gitVersion": self.git_version,
            "gitCommit": self.git_commit,
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": platform.python_implementation().lower(),
            "platform": f"{platform.system().lower()}/{_ARCHITECTURES.get(machine, machine)}",
        }
