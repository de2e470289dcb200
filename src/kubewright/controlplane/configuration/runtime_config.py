"""Which built-in API versions are served: `--runtime-config` of kube-apiserver.

Keys are `GROUP/VERSION` (`v1` for the core group), `GROUP/VERSION/RESOURCE`, `api/all`, `api/ga`, `api/beta`
or `api/alpha`. The more specific key counts: a resource before its version, a version before `api/beta`, that
before `api/all`. Stable versions are served by default.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from kubewright.api.builtin.resources import BuiltinResource

logger = logging.getLogger("kubewright.controlplane")

_STAGES = {"": "api/ga", "beta": "api/beta", "alpha": "api/alpha"}
_KEYWORDS = frozenset(("api/all", *_STAGES.values(), "api/legacy"))
_STAGE = re.compile(r"v\d+(alpha|beta)?\d*")

WITHOUT_CONVERSION = frozenset(("resource.k8s.io/v1beta1",))
"""Versions whose objects differ from those of the stored version; they cannot be served."""


class RuntimeConfig:
    """The versions that a runtime configuration enables. Raises `ValueError` for unknown groups."""

    def __init__(self, config: Mapping[str, bool], rows: Sequence[BuiltinResource]) -> None:
        self._config = config
        self._rows = rows
        groups = {row.gvk.group for row in rows}
        versions = {row.gvk.api_version for row in rows}
        unknown = set()
        for key, enabled in config.items():
            if key in _KEYWORDS:
                continue
            group, version = _group_version(key)
            if group not in groups:
                unknown.add(group or key)
            elif enabled and version not in versions:
                logger.warning("API version does not exist", extra={"version": version})
            elif enabled and version in WITHOUT_CONVERSION:
                logger.warning("API version cannot be served", extra={"version": version})
        if unknown:
            raise ValueError(f"runtime config: unknown api groups {', '.join(sorted(unknown))}")

    def served(self) -> list[BuiltinResource]:
        """Return the resources that are served."""
        return [row for row in self._rows if self.enables(row)]

    def enables(self, row: BuiltinResource) -> bool:
        """Whether a resource is served."""
        version = row.gvk.api_version
        if version in WITHOUT_CONVERSION:
            return False
        stage = _STAGE.fullmatch(row.gvk.version)
        level = _STAGES[(stage[1] if stage else "") or ""]
        for key in (f"{version}/{row.plural}", version, level, "api/all"):
            enabled = self._config.get(key)
            if enabled is not None:
                return enabled
        return row.served_by_default


def _group_version(key: str) -> tuple[str, str]:
    """Return the group and the `apiVersion` of a key; `api/v1` is another form of `v1`."""
    words = key.removeprefix("api/").split("/")
    if re.fullmatch(_STAGE, words[0]):
        return "", words[0]
    return words[0], "/".join(words[:2])
