"""PodSecurity: Pod Security Standards by namespace labels.

`pod-security.kubernetes.io/enforce`, `warn` and `audit` set a level: `privileged`, `baseline` or
`restricted`. `enforce` applies to pods; `warn` and `audit` also to the pod templates of workloads. Setting a
stricter `enforce` level returns warnings about existing pods that violate it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from kubewright.api.errors import invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin
from kubewright.controlplane.informers import Informers

from .rejection import reject

Object = dict[str, Any]
Check = Callable[[Object], str]

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
"""Levels from most to least permissive."""
_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")
_TEMPLATES = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}
_BASELINE_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_SAFE_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_SAFE_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")


class PodSecurity(AdmissionPlugin):
    """Rejects and warns according to the labels of the namespace."""

    name = "PodSecurity"
    validating = True

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    def handles(self, request: AdmissionAttributes) -> bool:
        """Handle pods, workloads with pod templates, and namespaces."""
        if request.operation not in ("CREATE", "UPDATE"):
            return False
        key = (request.resource.group, request.resource.resource)
        if key == ("", "pods"):
            return request.subresource in ("", "ephemeralcontainers")
        return (key in _TEMPLATES or key == ("", "namespaces")) and not request.subresource

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check a pod, a pod template, or the labels of a namespace."""
        if request.resource.resource == "namespaces":
            await self._validate_namespace(request)
            return
        namespace = await self._informers.namespace(request.namespace)
        labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
        if not any(name.startswith(PREFIX) for name in labels):
            return
        key = (request.resource.group, request.resource.resource)
        is_pod = key == ("", "pods")
        path = () if is_pod else _TEMPLATES[key]
        spec, before = _spec(request.object, path), _spec(request.old_object, path)
        if spec is None or (request.operation == "UPDATE" and spec == before):
            return
        if is_pod:
            level, version = _policy(labels, "enforce")
            violations = evaluate(level, spec)
            if violations:
                raise reject(request, f'violates PodSecurity "{level}:{version}": {violations}')
        level, version = _policy(labels, "warn")
        violations = evaluate(level, spec)
        if violations:
            request.warn(f'would violate PodSecurity "{level}:{version}": {violations}')
        level, version = _policy(labels, "audit")
        violations = evaluate(level, spec)
        if violations:
            text = f'would violate PodSecurity "{level}:{version}": {violations}'
            request.audit_annotations[f"{PREFIX}audit-violations"] = text

    async def _validate_namespace(self, request: AdmissionAttributes) -> None:
        """Validate the labels of a namespace; warn about existing pods that violate a new level."""
        labels, before = (_labels(obj) for obj in (request.object, request.old_object))
        errors = _label_errors(labels)
        if errors and errors != _label_errors(before):
            name = ((request.object or {}).get("metadata") or {}).get("name") or ""
            raise invalid(GroupKind("", "Namespace"), name, errors)
        new, old = _policy(labels, "enforce"), _policy(before, "enforce")
        relaxed = new[1] == old[1] and LEVELS.index(new[0]) <= LEVELS.index(old[0])
        if request.operation == "UPDATE" and new[0] != "privileged" and not relaxed:
            for text in await self._violators(request.name, new):
                request.warn(text)

    async def _violators(self, namespace: str, policy: tuple[str, str]) -> list[str]:
        store = self._informers.server.store("", "pods")
        if store is None:
            return []
        version = store.resource.version(store.resource.storage_version)
        assert version is not None
        found, _ = await store.list_objects(version, namespace)
        guilty: dict[str, list[str]] = {}
        for pod in found:
            violations = evaluate(policy[0], pod.get("spec") or {}, details=False)
            if violations:
                guilty.setdefault(violations, []).append(pod["metadata"]["name"])
        if not guilty:
            return []
        level = ":".join(policy)
        head = f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
        return [head, *sorted(f"{_several(names)}: {text}" for text, names in guilty.items())]


def _several(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other pod{'s' if others > 1 else ''})"


def _labels(obj: Object | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _label_errors(labels: dict[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for mode in ("enforce", "audit", "warn"):
        level, version = (f"{PREFIX}{mode}{end}" for end in ("", "-version"))
        if level in labels and labels[level] not in LEVELS:
            text = f"must be one of {', '.join(LEVELS)}"
            errors.append(FieldError.invalid(f"metadata.labels[{level}]", labels[level], text))
        if version in labels and not _VERSION.fullmatch(labels[version]):
            text = 'must be "latest" or "v1.x"'
            errors.append(FieldError.invalid(f"metadata.labels[{version}]", labels[version], text))
    return errors


def _policy(labels: dict[str, str], mode: str) -> tuple[str, str]:
    """Return level and version of a mode; `warn` defaults to the `enforce` level."""
    if mode == "warn" and f"{PREFIX}warn" not in labels and labels.get(f"{PREFIX}enforce") in LEVELS[1:]:
        level, version = _policy(labels, "enforce")
        return level, version if f"{PREFIX}warn-version" not in labels else _version(labels, "warn")
    level = labels.get(f"{PREFIX}{mode}", "privileged")
    if level not in LEVELS:
        level = "restricted" if mode == "enforce" else "privileged"
    return level, _version(labels, mode)


def _version(labels: dict[str, str], mode: str) -> str:
    version = labels.get(f"{PREFIX}{mode}-version") or ""
    return version if _VERSION.fullmatch(version) else "latest"


def _spec(obj: Object | None, path: Iterable[str]) -> Object | None:
    value: Any = obj
    for step in path:
        value = (value or {}).get(step)
    return (value or {}).get("spec")


def evaluate(level: str, spec: Object, *, details: bool = True) -> str:
    """Return the violations of a level by a pod, with or without details; empty if it complies."""
    if level == "privileged":
        return ""
    checks = _BASELINE if level == "baseline" else _RESTRICTED
    found = [text for text in (check(spec) for check in checks) if text]
    return ", ".join(found if details else (text.partition(" (")[0] for text in found))


def _containers(spec: Object) -> list[Object]:
    return [
        container
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
    ]


def _context(part: Object) -> Object:
    return part.get("securityContext") or {}


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _named(kind: str, names: list[str]) -> str:
    return f"{kind}{'s' if len(names) > 1 else ''} {_quoted(names)}"


def _who(spec: Object, bad: Callable[[Object], bool]) -> str:
    names = [each.get("name") or "" for each in _containers(spec) if bad(each)]
    return _named("container", names) if names else ""


def _host_namespaces(spec: Object) -> str:
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return f"host namespaces ({', '.join(used)})" if used else ""


def _privileged(spec: Object) -> str:
    who = _who(spec, lambda each: bool(_context(each).get("privileged")))
    return f"privileged ({who} must not set securityContext.privileged=true)" if who else ""


def _added(container: Object) -> list[str]:
    return (_context(container).get("capabilities") or {}).get("add") or []


def _baseline_capabilities(spec: Object) -> str:
    names = {name for each in _containers(spec) for name in _added(each)} - _BASELINE_CAPABILITIES
    if not names:
        return ""
    who = _who(spec, lambda each: bool(names.intersection(_added(each))))
    listed = _quoted(sorted(names))
    return f"non-default capabilities ({who} must not include {listed} in securityContext.capabilities.add)"


def _host_paths(spec: Object) -> str:
    names = [each.get("name") or "" for each in spec.get("volumes") or () if each.get("hostPath") is not None]
    return f"hostPath volumes ({_named('volume', names)})" if names else ""


def _host_ports(spec: Object) -> str:
    def ports(container: Object) -> list[int]:
        return [port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")]

    used = sorted({str(port) for each in _containers(spec) for port in ports(each)})
    if not used:
        return ""
    who = _who(spec, lambda each: bool(ports(each)))
    verb = "use" if who.startswith("containers") else "uses"
    return f"hostPort ({who} {verb} hostPort{'s' if len(used) > 1 else ''} {', '.join(used)})"


def _proc_mount(spec: Object) -> str:
    who = _who(spec, lambda each: _context(each).get("procMount") not in (None, "Default"))
    kinds = sorted(
        {str(_context(each).get("procMount") or "Default") for each in _containers(spec)} - {"Default"}
    )
    return f"procMount ({who} must not set securityContext.procMount to {_quoted(kinds)})" if who else ""


def _selinux(spec: Object) -> str:
    for part in (spec, *_containers(spec)):
        options = _context(part).get("seLinuxOptions") or {}
        if options.get("type", "") not in _SELINUX_TYPES or options.get("user") or options.get("role"):
            who = "pod" if part is spec else _named("container", [part.get("name") or ""])
            return f"seLinuxOptions ({who} set forbidden securityContext.seLinuxOptions)"
    return ""


def _baseline_seccomp(spec: Object) -> str:
    def unconfined(part: Object) -> bool:
        return (_context(part).get("seccompProfile") or {}).get("type") == "Unconfined"

    parts = (["pod"] if unconfined(spec) else []) + ([who] if (who := _who(spec, unconfined)) else [])
    if not parts:
        return ""
    rule = 'must not set securityContext.seccompProfile.type to "Unconfined"'
    return f"seccompProfile ({' and '.join(parts)} {rule})"


def _sysctls(spec: Object) -> str:
    names = [each.get("name") or "" for each in _context(spec).get("sysctls") or ()]
    bad = [name for name in names if name not in _SAFE_SYSCTLS]
    return f"forbidden sysctls ({', '.join(bad)})" if bad else ""


def _host_process(spec: Object) -> str:
    def wanted(part: Object) -> bool:
        return bool((_context(part).get("windowsOptions") or {}).get("hostProcess"))

    parts = (["pod"] if wanted(spec) else []) + ([who] if (who := _who(spec, wanted)) else [])
    if not parts:
        return ""
    return f"hostProcess ({' and '.join(parts)} must not set securityContext.windowsOptions.hostProcess=true)"


def _is_windows(spec: Object) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _escalation(spec: Object) -> str:
    if _is_windows(spec):
        return ""
    who = _who(spec, lambda each: _context(each).get("allowPrivilegeEscalation") is not False)
    rule = "must set securityContext.allowPrivilegeEscalation=false"
    return f"allowPrivilegeEscalation != false ({who} {rule})" if who else ""


def _restricted_capabilities(spec: Object) -> str:
    if _is_windows(spec):
        return ""
    parts: list[str] = []
    who = _who(spec, lambda each: "ALL" not in ((_context(each).get("capabilities") or {}).get("drop") or ()))
    if who:
        parts.append(f'{who} must set securityContext.capabilities.drop=["ALL"]')
    extra = {name for each in _containers(spec) for name in _added(each)} - {"NET_BIND_SERVICE"}
    if extra:
        adders = _who(spec, lambda each: bool(extra.intersection(_added(each))))
        parts.append(
            f"{adders} must not include {_quoted(sorted(extra))} in securityContext.capabilities.add"
        )
    return f"unrestricted capabilities ({'; '.join(parts)})" if parts else ""


def _volumes(spec: Object) -> str:
    bad: dict[str, list[str]] = {}
    for volume in spec.get("volumes") or ():
        kinds = [name for name in volume if name != "name"]
        if kinds and not _SAFE_VOLUMES.intersection(kinds):
            bad.setdefault(kinds[0], []).append(volume.get("name") or "")
    if not bad:
        return ""
    names = [name for each in bad.values() for name in each]
    verb = "use" if len(names) > 1 else "uses"
    types = f"type{'s' if len(bad) > 1 else ''} {_quoted(sorted(bad))}"
    return f"restricted volume types ({_named('volume', names)} {verb} restricted volume {types})"


def _non_root(spec: Object) -> str:
    whole = _context(spec).get("runAsNonRoot")
    parts: list[str] = []
    wrong = _who(spec, lambda each: _context(each).get("runAsNonRoot") is False)
    if whole is False:
        parts.append("pod")
    if wrong:
        parts.append(wrong)
    if parts:
        return f"runAsNonRoot != true ({' and '.join(parts)} must not set securityContext.runAsNonRoot=false)"
    silent = _who(spec, lambda each: _context(each).get("runAsNonRoot") is None) if whole is None else ""
    if silent:
        return f"runAsNonRoot != true (pod or {silent} must set securityContext.runAsNonRoot=true)"
    return ""


def _root_user(spec: Object) -> str:
    parts = ["pod"] if _context(spec).get("runAsUser") == 0 else []
    who = _who(spec, lambda each: _context(each).get("runAsUser") == 0)
    parts += [who] if who else []
    return f"runAsUser=0 ({' and '.join(parts)} must not set runAsUser=0)" if parts else ""


def _restricted_seccomp(spec: Object) -> str:
    if _is_windows(spec):
        return ""
    rule = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    unconfined = _baseline_seccomp(spec)
    if unconfined:
        return unconfined

    def silent(part: Object) -> bool:
        return not (_context(part).get("seccompProfile") or {}).get("type")

    who = _who(spec, silent) if silent(spec) else ""
    return f"seccompProfile (pod or {who} must set {rule})" if who else ""


_COMMON: tuple[Check, ...] = (_host_namespaces, _host_ports, _privileged, _proc_mount, _selinux)
_BASELINE: tuple[Check, ...] = (
    _baseline_capabilities,
    _host_namespaces,
    _host_paths,
    _host_ports,
    _privileged,
    _proc_mount,
    _selinux,
    _baseline_seccomp,
    _sysctls,
    _host_process,
)
_RESTRICTED: tuple[Check, ...] = (
    *_COMMON,
    _sysctls,
    _host_process,
    _escalation,
    _restricted_capabilities,
    _volumes,
    _non_root,
    _root_user,
    _restricted_seccomp,
)
