"""Validation of `subPathExpr` of volume mounts, whose value is known when a container is started."""

from __future__ import annotations

import re
from typing import Final

from kubewright.workloads.nodes.objects import Object

from .runtime import ContainerStartError

RETRY_SECONDS: Final = 10.0
_VARIABLE: Final = re.compile(r"\$\((\w+)\)")


def check_sub_paths(container: Object) -> None:
    """Raise `ContainerStartError` for a sub-path that leaves its volume. Only literal variables are known."""
    for mount in container.get("volumeMounts") or ():
        if not mount.get("subPathExpr"):
            continue
        path = _expand(mount["subPathExpr"], container)
        if path.startswith("/"):
            raise _error(f"error SubPath `{path}` must not be an absolute path")
        if ".." in path.split("/"):
            raise _error(f"unable to provision SubPath `{path}`: must not contain '..'")


def _expand(text: str, container: Object) -> str:
    values = {each["name"]: str(each["value"]) for each in container.get("env") or () if each.get("value")}
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)


def _error(message: str) -> ContainerStartError:
    return ContainerStartError(message, reason="CreateContainerConfigError", retry_after=RETRY_SECONDS)
