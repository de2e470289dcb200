"""`KubernetesVersion`: a supported version of Kubernetes, and what it has that others lack.

    KubernetesVersion.parse("1.34").includes("1.36-")     # False

The data of the newest version are in the modules that use them. What other versions lack, or have in another
form, is in one table, `kubernetes_versions.json`, which `tools/generate_versions.py` derives from the sources
of Kubernetes. It is read at the first use of another version, so the newest one costs nothing.

A range is the versions that have something: `1.34-` since 1.34, `-1.36` until 1.36, `1.35` or `1.35-1.36` in
between; empty for all.

Rules that are far below the declaration of a kind, such as the format of an address, read the version of the
server that serves the current request (`serving_version`), instead of a parameter of every function between:

    if serving_version().enables("StrictIPCIDRValidation"): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, Self

import msgspec

OLDEST_MINOR: Final = 33
NEWEST_MINOR: Final = 37


class Gate(NamedTuple):
    """A feature gate in one version."""

    stage: str
    """`alpha`, `beta`, `stable` or `deprecated`."""
    enabled: bool
    """Whether it is enabled by default."""
    locked: bool
    """Whether its value cannot be changed."""


class KubernetesVersion(NamedTuple):
    """A minor version of Kubernetes; versions are ordered."""

    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the version of `1.34`, `v1.34` or `1.34.2`; empty is the newest. Raises `ValueError`."""
        if not text:
            return cls(NEWEST_MINOR)
        major, *rest = text.strip().removeprefix("v").split(".")
        if major == "1" and rest and rest[0].isdecimal() and all(part for part in rest):
            version = cls(int(rest[0]))
            if OLDEST_MINOR <= version.minor <= NEWEST_MINOR:
                return version
        raise ValueError(f"Kubernetes {text} is not supported; use one of {', '.join(map(str, supported()))}")

    def __str__(self) -> str:
        """Return `1.34`."""
        return f"1.{self.minor}"

    @property
    def is_newest(self) -> bool:
        """Whether it is the newest supported version."""
        return self.minor == NEWEST_MINOR

    def includes(self, versions: str) -> bool:
        """Whether the version is in a range."""
        if not versions:
            return True
        first, dash, last = versions.partition("-")
        if not dash:
            return str(self) == first
        return (not first or _minor(first) <= self.minor) and (not last or self.minor <= _minor(last))

    def gates(self) -> dict[str, Gate]:
        """Return the feature gates of kube-apiserver, by name."""
        found = {}
        for name, changes in version_table()["gates"].items():
            states = self._states(changes)
            if states and states[-1]:
                found[name] = Gate(states[-1].rstrip("+!"), "+" in states[-1], "!" in states[-1])
        return found

    def enables(self, gate: str) -> bool:
        """Whether a feature is enabled by default; also after its gate was removed."""
        return gate in _enabled_gates(self)

    def _states(self, changes: str) -> list[str]:
        """Return the states of a gate until this version; the empty one if it was removed."""
        parts = [change.partition(" ") for change in changes.split(";")]
        return [state for since, _, state in parts if _minor(since) <= self.minor]


def _minor(text: str) -> int:
    return int(text.partition(".")[2])


def supported() -> tuple[KubernetesVersion, ...]:
    """Return the supported versions, oldest first."""
    return tuple(KubernetesVersion(minor) for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))


def parse_versions(text: str) -> list[KubernetesVersion]:
    """Return the versions of `1.33,1.37`, `1.33-1.37` or `all`; raises `ValueError`."""
    found: list[KubernetesVersion] = []
    for part in text.split(","):
        if part.strip() == "all":
            found += supported()
            continue
        first, dash, last = part.strip().partition("-")
        if not first or (dash and not last):
            raise ValueError(f"{text!r}: expected versions such as 1.33,1.37 or 1.33-1.37")
        low = KubernetesVersion.parse(first)
        high = KubernetesVersion.parse(last) if dash else low
        found += (version for version in supported() if low <= version <= high)
    return list(dict.fromkeys(found))


NEWEST: Final = KubernetesVersion(NEWEST_MINOR)

_serving: ContextVar[KubernetesVersion] = ContextVar("kubernetes_version", default=NEWEST)


def serving_version() -> KubernetesVersion:
    """Return the version of the server that serves the current request."""
    return _serving.get()


@contextmanager
def serving(version: KubernetesVersion) -> Iterator[None]:
    """Serve requests as a version."""
    token = _serving.set(version)
    try:
        yield
    finally:
        _serving.reset(token)


@cache
def _enabled_gates(version: KubernetesVersion) -> frozenset[str]:
    states = {name: version._states(changes) for name, changes in version_table()["gates"].items()}
    return frozenset(
        name for name, found in states.items() if any(found) and "+" in [*filter(None, found)][-1]
    )


@cache
def version_table() -> dict[str, Any]:
    """Return the table of differences."""
    text = (files(__package__) / "kubernetes_versions.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Any])
