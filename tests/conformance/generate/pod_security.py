"""Pods in namespaces with each Pod Security level and version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.generate.builtin_kinds import merge

_LEVELS = {
    "baseline": ("latest", "v1.0", "v1.24", "v1.33", "v1.34"),
    "restricted": ("latest", "v1.0", "v1.18", "v1.22", "v1.25"),
}
_SAFE = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/c"


def _container(**fields: Any) -> dict[str, Any]:
    security = merge(_SAFE, fields.pop("securityContext", {}))
    return {"spec": {"containers": [{"name": "c", "image": "i", "securityContext": security, **fields}]}}


_PODS: dict[str, dict[str, Any]] = {
    "safe": _container(),
    "plain": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    "only runAsNonRoot": {
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"runAsNonRoot": True}}]}
    },
    "privileged": _container(securityContext={"privileged": True, "allowPrivilegeEscalation": None}),
    "hostNetwork": merge(_container(), {"spec": {"hostNetwork": True}}),
    "hostPID": merge(_container(), {"spec": {"hostPID": True}}),
    "host port": _container(ports=[{"containerPort": 80, "hostPort": 80}]),
    "host path": merge(_container(), {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}),
    "nfs": merge(_container(), {"spec": {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}}),
    "capability": _container(securityContext={"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}),
    "bind service": _container(
        securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}
    ),
    "root": _container(securityContext={"runAsUser": 0}),
    "unconfined seccomp": _container(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    "no seccomp": _container(securityContext={"seccompProfile": None}),
    "seccomp annotation": merge(
        _container(securityContext={"seccompProfile": None}),
        {"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}},
    ),
    "apparmor annotation": merge(_container(), {"metadata": {"annotations": {_APPARMOR: "unconfined"}}}),
    "apparmor field": _container(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
    "proc mount": _container(securityContext={"procMount": "Unmasked"}),
    "proc mount with user namespace": merge(
        _container(securityContext={"procMount": "Unmasked"}), {"spec": {"hostUsers": False}}
    ),
    "root with user namespace": merge(
        _container(securityContext={"runAsUser": 0, "runAsNonRoot": None}), {"spec": {"hostUsers": False}}
    ),
    "sysctl": merge(
        _container(), {"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}}
    ),
    "safe sysctl": merge(
        _container(),
        {"spec": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_keepalive_time", "value": "1"}]}}},
    ),
    "selinux": _container(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
    "selinux user": _container(securityContext={"seLinuxOptions": {"user": "u"}}),
    "probe host": _container(livenessProbe={"httpGet": {"host": "10.1.1.1", "port": 80}}),
    "lifecycle host": _container(lifecycle={"preStop": {"httpGet": {"host": "10.1.1.1", "port": 80}}}),
    "tcp host": _container(readinessProbe={"tcpSocket": {"host": "10.1.1.1", "port": 80}}),
    "host process": merge(
        _container(),
        {"spec": {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}}}},
    ),
    "windows": {
        "spec": {
            "os": {"name": "windows"},
            "containers": [{"name": "c", "image": "i", "securityContext": {"runAsNonRoot": True}}],
        }
    },
}


def pod_security_cases() -> Iterator[Case]:
    """One case per level and version, in the category misc."""
    for level, versions in _LEVELS.items():
        for version in versions:
            labels = {
                "pod-security.kubernetes.io/enforce": level,
                "pod-security.kubernetes.io/enforce-version": version,
            }
            steps = [
                {
                    "do": "POST $(core)/pods?dryRun=All",
                    "name": name,
                    "body": merge({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, pod),
                }
                for name, pod in _PODS.items()
            ]
            name = f"misc/pod-security-{level}-{version.replace('.', '-')}"
            document = {
                "about": f"Pods in a namespace with level {level} of {version}.",
                "namespaceLabels": labels,
                "steps": steps,
            }
            yield Case(name, document)
