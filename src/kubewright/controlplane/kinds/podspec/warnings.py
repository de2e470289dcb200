"""What is allowed in a pod spec and still unwise: sent as warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubewright.api import names
from kubewright.api.quantity import Quantity

Object = dict[str, Any]

_OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def _instead(version: str, label: str) -> str:
    return f'deprecated since {version}; use "{label}" instead'


_OLD_LABELS = {
    "beta.kubernetes.io/arch": _instead("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": _instead("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": _instead("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": _instead("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": _instead("v1.17", "node.kubernetes.io/instance-type"),
}
_BYTES = ("memory", "ephemeral-storage")


def host_name_warnings(obj: Object) -> Iterator[str]:
    """About names of workloads that make bad host names of their pods."""
    wrong = names.check_dns_label(obj["metadata"].get("name") or "")
    if wrong:
        yield (
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
            f"behavior; a DNS label is recommended: [{' '.join(wrong)}]"
        )


def pod_spec_warnings(spec: Object, path: str) -> Iterator[str]:
    """The warnings about a spec; `path` is its place."""
    for key in spec.get("nodeSelector") or {}:
        if key in _OLD_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_OLD_LABELS[key]}"
    for position, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            where = f"{path}.topologySpreadConstraints[{position}].labelSelector"
            yield f"{where}: a null labelSelector results in matching no pod"
    for position, volume in enumerate(spec.get("volumes") or ()):
        for source, text in _OLD_VOLUMES.items():
            if volume.get(source) is not None:
                shown = "storageOS" if source == "storageos" else source
                yield f"{path}.volumes[{position}].{shown}: {text}"
    yield from _repeated(spec.get("hostAliases") or [], "ip", f"{path}.hostAliases")
    yield from _repeated(spec.get("imagePullSecrets") or [], "name", f"{path}.imagePullSecrets")
    for position, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{position}].name: invalid empty name ""'
    yield from _container_warnings(spec, path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"


def _repeated(items: list[Object], field: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, item in enumerate(items):
        value = item.get(field) or ""
        if value and value in seen:
            yield f'{path}[{position}].{field}: duplicate {field} "{value}"'
        seen.add(value)


def _container_warnings(spec: Object, path: str) -> Iterator[str]:
    ports: dict[tuple[Any, Any], list[tuple[str, Object]]] = {}
    port_names: dict[str, str] = {}
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{index}]"
            for part in ("limits", "requests"):
                for name in _BYTES:
                    value = ((container.get("resources") or {}).get(part) or {}).get(name)
                    if value is not None and Quantity(value).nanos % 1_000_000_000:
                        text = f'fractional byte value "{value}" is invalid, must be an integer'
                        yield f"{where}.resources.{part}[{name}]: {text}"
            yield from _hidden_variables(container.get("env") or [], f"{where}.env")
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for position, port in enumerate(container.get("ports") or ()):
                at = f"{where}.ports[{position}]"
                key = (port.get("containerPort"), port.get("protocol"))
                for other, known in ports.get(key, ()):
                    yield from _port_clash(at, port, other, known)
                ports.setdefault(key, []).append((at, port))
                name = port.get("name")
                if name and name in port_names:
                    other = port_names[name]
                    yield (
                        f'{at}: duplicate port name "{name}" with {other}, services and probes that select '
                        f"ports by name will use {other}"
                    )
                elif name:
                    port_names[name] = at


def _port_clash(at: str, port: Object, other: str, known: Object) -> Iterator[str]:
    mine, theirs = port.get("hostPort") or 0, known.get("hostPort") or 0
    if (port.get("hostIP") or "", mine) == (known.get("hostIP") or "", theirs):
        yield f"{at}: duplicate port definition with {other}"
    elif not mine or not theirs:
        yield f"{at}: overlapping port definition with {other}"
    elif mine == theirs and bool(port.get("hostIP")) != bool(known.get("hostIP")):
        yield f"{at}: dangerously ambiguous port definition with {other}"


def _hidden_variables(variables: list[Object], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        if name in seen:
            reference = f"$({name})"
            if variable.get("valueFrom") is not None or value == reference or reference not in value:
                text = f'hides previous definition of "{name}", which may be dropped when using apply'
                yield f"{path}[{position}]: {text}"
        seen.add(name)
