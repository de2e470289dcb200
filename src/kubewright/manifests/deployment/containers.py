"""Parts that the containers of operators and API servers share: Pod Security, resources and probes.

Each call returns new objects, because manifests are changed while they are built.
"""

from __future__ import annotations

from .names import Manifest


def pod_security_context() -> Manifest:
    """Return the security context of a pod at the level `restricted`."""
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def container_limits() -> Manifest:
    """Return resources and security context of a container at the level `restricted`."""
    return {
        "resources": {
            "limits": {"cpu": "500m", "memory": "256Mi"},
            "requests": {"cpu": "10m", "memory": "96Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def http_probe(path: str, port: str, *, delay: int, period: int, scheme: str = "") -> Manifest:
    """Return a probe of a path on a named port."""
    action = {"path": path, "port": port, **({"scheme": scheme} if scheme else {})}
    return {"httpGet": action, "initialDelaySeconds": delay, "periodSeconds": period}
