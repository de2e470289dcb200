"""Warnings about pods and pod templates, with the texts of kube-apiserver.

They do not reject a request: they report deprecated fields and labels, repeated entries that hide each other,
fractions of bytes, and names that are not valid as host names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values import names
from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation.addresses import ip_warnings

from .security import ANNOTATION as APP_ARMOR
from .security import profile_of

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
_OLD_PERSISTENT = ("photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "cephfs", "rbd")


def _instead(version: str, label: str) -> str:
    return f'deprecated since {version}; use "{label}" instead'


DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": _instead("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": _instead("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": _instead("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": _instead("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": _instead("v1.17", "node.kubernetes.io/instance-type"),
}
_OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": ("v1.16+", "priorityClassName"),
    "security.alpha.kubernetes.io/sysctls": ("v1.11+", "sysctls"),
    "security.alpha.kubernetes.io/unsafe-sysctls": ("v1.11+", "sysctls"),
}
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_BYTES = ("memory", "ephemeral-storage")
_NO_SELECTOR = "a null labelSelector results in matching no pod"


def host_name_warnings(obj: Object) -> Iterator[str]:
    """Warn about names of workloads that are not DNS labels."""
    yield from _label_advice(obj, "Pod names and hostnames")


def pod_name_warnings(pod: Object) -> Iterator[str]:
    """Warn about a name of a pod that is not a DNS label."""
    yield from _label_advice(pod, "the Pod's hostname")


def _label_advice(obj: Object, use: str) -> Iterator[str]:
    wrong = names.check_dns_label(obj["metadata"].get("name") or "")
    if wrong:
        yield (
            f"metadata.name: this is used in {use}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(wrong)}]"
        )


def pod_warnings(pod: Object, place: str = "") -> Iterator[str]:
    """Return the warnings about a pod, or about the template at the path `place`."""
    spec: Object = pod.get("spec") or {}
    annotations: Object = (pod.get("metadata") or {}).get("annotations") or {}
    start = f"{place}." if place else ""
    path, notes = f"{start}spec", f"{start}metadata.annotations"
    yield from _placement_warnings(spec, path)
    for key, (version, field) in _OLD_ANNOTATIONS.items():
        if key in annotations:
            yield f'{notes}[{key}]: non-functional in {version}; use the "{field}" field instead'
    for position, volume in enumerate(spec.get("volumes") or ()):
        yield from volume_warnings(volume, f"{path}.volumes[{position}]")
    yield from overlap_warnings(spec.get("volumes") or [])
    yield from _repeated(spec.get("hostAliases") or [], "ip", f"{path}.hostAliases")
    yield from _repeated(spec.get("imagePullSecrets") or [], "name", f"{path}.imagePullSecrets")
    for position, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{position}].name: invalid empty name ""'
    yield from _fractions(spec.get("overhead"), f"{path}.overhead", _BYTES)
    key = "seccomp.security.alpha.kubernetes.io/pod"
    if key in annotations and (spec.get("securityContext") or {}).get("seccompProfile") is None:
        yield f"{notes}[{key}]: {_SECCOMP}"
    for container, where in _containers(spec, path):
        yield from _container_warnings(container, where, spec, annotations, notes, is_template=bool(place))
    yield from _port_warnings(spec, path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"
    yield from _affinity_warnings(spec.get("affinity") or {}, f"{path}.affinity")
    for position, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from ip_warnings(server, f"{path}.dnsConfig.nameservers[{position}]")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        yield from ip_warnings(alias.get("ip") or "", f"{path}.hostAliases[{position}].ip")


def volume_warnings(volume: Object, path: str, *, persistent: bool = False) -> Iterator[str]:
    """Warn about volume sources that are deprecated or no longer work."""
    for source in _OLD_PERSISTENT if persistent else _OLD_VOLUMES:
        if volume.get(source) is not None:
            shown = "storageOS" if source == "storageos" else source
            yield f"{path}.{shown}: {_OLD_VOLUMES[source]}"


def node_term_warnings(term: Object, path: str, *, check_values: bool = False) -> Iterator[str]:
    """Warn about deprecated labels and invalid label values in a node selector term."""
    for position, expression in enumerate(term.get("matchExpressions") or ()):
        where, key = f"{path}.matchExpressions[{position}]", expression.get("key") or ""
        if key in DEPRECATED_LABELS:
            yield f"{where}.key: {key} is {DEPRECATED_LABELS[key]}"
        for index, value in enumerate(expression.get("values") or ()) if check_values else ():
            for text in names.check_label_value(value):
                yield f"{where}.values[{index}]: {value} is invalid, {text}"


def _placement_warnings(spec: Object, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or {}:
        if key in DEPRECATED_LABELS:
            yield f"{path}.nodeSelector[{key}]: {DEPRECATED_LABELS[key]}"
    affinity: Object = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    where = f"{path}.affinity.nodeAffinity"
    required: Object = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for position, term in enumerate(required.get("nodeSelectorTerms") or ()):
        at = f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{position}]"
        yield from node_term_warnings(term, at)
    for position, weighted in enumerate(
        affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    ):
        at = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{position}].preference"
        yield from node_term_warnings(weighted.get("preference") or {}, at, check_values=True)
    for position, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}.topologySpreadConstraints[{position}]", constraint.get("topologyKey") or ""
        if key in DEPRECATED_LABELS:
            yield f"{where}.topologyKey: {key} is {DEPRECATED_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NO_SELECTOR}"


def _affinity_warnings(affinity: Object, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms: Object = affinity.get(kind) or {}
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        for position, term in enumerate(terms.get(field) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{kind}.{field}[{position}].labelSelector: {_NO_SELECTOR}"
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        for position, weighted in enumerate(terms.get(field) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{kind}.{field}[{position}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"


def _repeated(items: list[Object], field: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for position, item in enumerate(items):
        value = item.get(field) or ""
        if value in seen:
            yield f'{path}[{position}].{field}: duplicate {field} "{value}"'
        seen.add(value)


def _containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield container, f"{path}.{kind}[{index}]"


def _fractions(amounts: Object | None, path: str, kinds: Iterable[str]) -> Iterator[str]:
    for name in kinds:
        value = (amounts or {}).get(name)
        if value is not None and Quantity(value).nanos % 1_000_000_000:
            yield f'{path}[{name}]: fractional byte value "{value}" is invalid, must be an integer'


def _container_warnings(
    container: Object, where: str, spec: Object, annotations: Object, notes: str, *, is_template: bool
) -> Iterator[str]:
    context: Object = container.get("securityContext") or {}
    key = f"container.seccomp.security.alpha.kubernetes.io/{container.get('name') or ''}"
    if key in annotations and context.get("seccompProfile") is None:
        yield f"{notes}[{key}]: {_SECCOMP}"
    key = f"{APP_ARMOR}{container.get('name') or ''}"
    if is_template and key in annotations and context.get("appArmorProfile") is None:
        profile = (spec.get("securityContext") or {}).get("appArmorProfile")
        # 1.33 accepts an annotation beside any profile of the pod.
        is_same = profile == profile_of(annotations[key]) or serving_version().includes("-1.33")
        if profile is None or not is_same:
            yield f'{notes}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    resources: Object = container.get("resources") or {}
    for name in _BYTES:
        for part in ("limits", "requests"):
            yield from _fractions(resources.get(part), f"{where}.resources.{part}", (name,))
    yield from _hidden_variables(container.get("env") or [], f"{where}.env")


def _port_warnings(spec: Object, path: str) -> Iterator[str]:
    ports: dict[tuple[Any, Any], list[tuple[str, Object]]] = {}
    listed = [
        (f"{where}.ports[{position}]", port)
        for container, where in _containers(spec, path)
        if ".initContainers[" not in where or container.get("restartPolicy") == "Always"
        for position, port in enumerate(container.get("ports") or ())
    ]
    for at, port in listed:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{at}: hostIP set without hostPort: {_shown_port(port)}"
        key = (port.get("containerPort"), port.get("protocol"))
        for other, known in ports.get(key, ()):
            yield from _port_clash(at, port, other, known)
        ports.setdefault(key, []).append((at, port))
    port_names: dict[str, str] = {}
    for at, port in listed:
        name = port.get("name")
        if name and name in port_names:
            other = port_names[name]
            yield (
                f'{at}: duplicate port name "{name}" with {other}, services and probes that select '
                f"ports by name will use {other}"
            )
        elif name:
            port_names[name] = at


def _shown_port(port: Object) -> str:
    return (
        f"{{Name:{port.get('name') or ''} HostPort:{port.get('hostPort') or 0} "
        f"ContainerPort:{port.get('containerPort') or 0} Protocol:{port.get('protocol') or ''} "
        f"HostIP:{port.get('hostIP') or ''}}}"
    )


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


class _File(NamedTuple):
    path: str
    origin: str

    def __str__(self) -> str:
        return f'"{self.path}" ({self.origin})' if self.origin else f'"{self.path}"'


_CERTIFICATE_FILES = {
    "certificateChainPath": "chain",
    "keyPath": "key",
    "credentialBundlePath": "credential bundle",
}


def overlap_warnings(volumes: list[Object]) -> Iterator[str]:
    """Yield a warning for each pair of overlapping paths."""
    for volume in volumes:
        name = volume.get("name") or ""
        for kind, field, label in (("configMap", "name", "ConfigMap"), ("secret", "secretName", "Secret")):
            source: Object = volume.get(kind) or {}
            shown = f'{label} "{source.get(field) or ""}"'
            yield from _clashes(_files(source, ""), name, shown)
        yield from _clashes(_files(volume.get("downwardAPI") or {}, ""), name, "DownwardAPI")
        projected: list[_File] = []
        found: list[_File] = []
        # 1.33 reported the files of a source again for each source without files after it.
        repeats = serving_version().includes("-1.33")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if not any(value is not None for value in source.values()):
                yield f'volume "{name}" (Projected) has no sources provided'
                continue
            found = _projected_files(source) or (found if repeats else [])
            projected += found
        yield from _clashes(projected, name, "Projected")


def _files(source: Object, origin: str) -> list[_File]:
    return [_File((item.get("path") or "").rstrip("/"), origin) for item in source.get("items") or ()]


def _projected_files(source: Object) -> list[_File]:
    for kind, label in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if (source.get(kind) or {}).get("items"):
            return _files(source[kind], f'{label} "{source[kind].get("name") or ""}"')
    if (source.get("downwardAPI") or {}).get("items"):
        return _files(source["downwardAPI"], "DownwardAPI")
    if source.get("serviceAccountToken") is not None:
        return [_File((source["serviceAccountToken"].get("path") or "").rstrip("/"), "ServiceAccountToken")]
    bundle, certificate = source.get("clusterTrustBundle"), source.get("podCertificate") or {}
    if bundle is not None:
        name = bundle.get("name") or bundle.get("signerName") or ""
        return [_File((bundle.get("path") or "").rstrip("/"), f'ClusterTrustBundle "{name}"')]
    return [
        _File(certificate[field].rstrip("/"), f"PodCertificate {label}")
        for field, label in _CERTIFICATE_FILES.items()
        if certificate.get(field)
    ]


def _clashes(files: list[_File], volume: str, source: str) -> Iterator[str]:
    for position, file in enumerate(files):
        for other in files[:position]:
            if not file.path or not other.path:
                continue
            mine, theirs = f"{file.path}/", f"{other.path}/"
            if mine.startswith(theirs) or theirs.startswith(mine):
                yield f'volume "{volume}" ({source}): overlapping paths: {file} with {other}'
