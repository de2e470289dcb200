"""Checks of the Pod Security Standards, per level and version.

Each check has the Kubernetes versions at which its rule changes; a policy `baseline:v1.18` is evaluated with
the rules of 1.18. `restricted` consists of its own checks and those of `baseline` that they do not replace.
Reference: `k8s.io/pod-security-admission/policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from kubewright.api.kubernetes_version import serving_version
from kubewright.apiserver.resources.objects import Object

Rule = Callable[[Object], str]
"""Returns the violation by a pod or pod template (`metadata`, `spec`), or an empty string."""

NEWEST = 35
"""Minor version of the newest rule. Later versions, and `latest`, are evaluated as this one, or as the served
version if that is older."""

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
_SYSCTLS_0 = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_syncookies",
    )
)
_SYSCTLS_27 = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SELINUX_TYPES_0 = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_SELINUX_TYPES_31 = _SELINUX_TYPES_0 | {"container_engine_t"}
_APP_ARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILE_TYPES = ("RuntimeDefault", "Localhost")


def evaluate(level: str, version: str, pod: Object, *, details: bool = True) -> str:
    """Return the violations of a level by a pod, with or without details; empty if it complies.

    `version` is `latest` or `v1.x`. `pod` is a pod or a pod template.
    """
    if level == "privileged":
        return ""
    newest = min(NEWEST, serving_version().minor)
    minor = newest if version == "latest" else min(int(version.removeprefix("v1.")), newest)
    found = [text for text in (rule(pod) for rule in _rules(level, minor)) if text]
    return ", ".join(found if details else (text.partition(" (")[0] for text in found))


class Check(NamedTuple):
    """One check: the rules by the minor version at which each starts, oldest first."""

    name: str
    versions: tuple[tuple[int, Rule], ...]
    replaces: str = ""
    """Check of `baseline` that is not evaluated for `restricted` from the first version of this check."""

    def rule(self, minor: int) -> Rule | None:
        """Return the rule of a version."""
        return next((rule for start, rule in reversed(self.versions) if start <= minor), None)


@cache
def _rules(level: str, minor: int) -> tuple[Rule, ...]:
    restricted = [each for each in _RESTRICTED if each.rule(minor)] if level == "restricted" else []
    replaced = {each.replaces for each in restricted}
    checks = [each for each in _BASELINE if each.name not in replaced] + restricted
    return tuple(rule for rule in (each.rule(minor) for each in checks) if rule)


def _spec(pod: Object) -> Object:
    return pod.get("spec") or {}


def _annotations(pod: Object) -> dict[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}


def _containers(pod: Object) -> list[Object]:
    spec = _spec(pod)
    return [
        container
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
    ]


def _context(part: Object) -> Object:
    return part.get("securityContext") or {}


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _go_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _named(kind: str, names: list[str]) -> str:
    return f"{kind}{'s' if len(names) > 1 else ''} {_quoted(names)}"


def _violators(pod: Object, violates: Callable[[Object], bool]) -> str:
    names = [each.get("name") or "" for each in _containers(pod) if violates(each)]
    return _named("container", names) if names else ""


def _setters(pod: Object, violates: Callable[[Object], bool]) -> list[str]:
    """Return who sets a forbidden value: the pod, its containers, or both."""
    containers = _violators(pod, violates)
    return (["pod"] if violates(_spec(pod)) else []) + ([containers] if containers else [])


def _profile_types(pod: Object, field: str) -> tuple[list[str], list[str]]:
    """Return who sets a forbidden profile type, and these types."""

    def forbidden(part: Object) -> bool:
        profile = _context(part).get(field)
        return profile is not None and profile.get("type") not in _PROFILE_TYPES

    parts = [part for part in (_spec(pod), *_containers(pod)) if forbidden(part)]
    return _setters(pod, forbidden), sorted({_context(part)[field].get("type") or "" for part in parts})


def _app_armor(pod: Object) -> str:
    setters, values = _profile_types(pod, "appArmorProfile")
    annotations = sorted(
        f"{name}={_go_quoted(value)}"
        for name, value in _annotations(pod).items()
        if name.startswith(_APP_ARMOR_PREFIX)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        setters.append("annotations" if len(annotations) > 1 else "annotation")
        values += annotations
    if not setters:
        return ""
    several = "s" if len(values) > 1 else ""
    rule = f"must not set AppArmor profile type to {_quoted(values)}"
    return f"forbidden AppArmor profile{several} ({' and '.join(setters)} {rule})"


def _added(container: Object) -> list[str]:
    return (_context(container).get("capabilities") or {}).get("add") or []


def _baseline_capabilities(pod: Object) -> str:
    names = {name for each in _containers(pod) for name in _added(each)} - _BASELINE_CAPABILITIES
    if not names:
        return ""
    who = _violators(pod, lambda each: bool(names.intersection(_added(each))))
    listed = _quoted(sorted(names))
    return f"non-default capabilities ({who} must not include {listed} in securityContext.capabilities.add)"


def _host_namespaces(pod: Object) -> str:
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if _spec(pod).get(field)]
    return f"host namespaces ({', '.join(used)})" if used else ""


def _host_paths(pod: Object) -> str:
    volumes = _spec(pod).get("volumes") or ()
    names = [each.get("name") or "" for each in volumes if each.get("hostPath") is not None]
    return f"hostPath volumes ({_named('volume', names)})" if names else ""


def _host_ports(pod: Object) -> str:
    def ports(container: Object) -> list[int]:
        return [port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")]

    used = sorted({str(port) for each in _containers(pod) for port in ports(each)})
    if not used:
        return ""
    who = _violators(pod, lambda each: bool(ports(each)))
    verb = "use" if who.startswith("containers") else "uses"
    return f"hostPort ({who} {verb} hostPort{'s' if len(used) > 1 else ''} {', '.join(used)})"


def _probe_hosts(container: Object) -> list[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(field) for field in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers += [lifecycle.get(field) for field in ("postStart", "preStop")]
    actions = [(each or {}).get(field) for each in handlers for field in ("httpGet", "tcpSocket")]
    return [each["host"] for each in actions if each and each.get("host")]


def _probes_and_lifecycle(pod: Object) -> str:
    names = sorted({each.get("name") or "" for each in _containers(pod) if _probe_hosts(each)})
    if not names:
        return ""
    hosts = sorted({host for each in _containers(pod) for host in _probe_hosts(each)})
    verb = "use" if len(names) > 1 else "uses"
    listed = _named("probe or lifecycle host", hosts)
    return f"probe or lifecycle host ({_named('container', names)} {verb} {listed})"


def _privileged(pod: Object) -> str:
    who = _violators(pod, lambda each: bool(_context(each).get("privileged")))
    return f"privileged ({who} must not set securityContext.privileged=true)" if who else ""


def _proc_mount(pod: Object) -> str:
    who = _violators(pod, lambda each: _context(each).get("procMount") not in (None, "Default"))
    values = sorted(
        {str(_context(each).get("procMount") or "Default") for each in _containers(pod)} - {"Default"}
    )
    return f"procMount ({who} must not set securityContext.procMount to {_quoted(values)})" if who else ""


def _selinux(types: frozenset[str]) -> Rule:
    def rule(pod: Object) -> str:
        def options(part: Object) -> Object:
            return _context(part).get("seLinuxOptions") or {}

        def forbidden(part: Object) -> bool:
            found = options(part)
            return bool((found.get("type") or "") not in types or found.get("user") or found.get("role"))

        setters = _setters(pod, forbidden)
        if not setters:
            return ""
        every = [options(part) for part in (_spec(pod), *_containers(pod))]
        bad = sorted({each.get("type") or "" for each in every} - types)
        data = [_named("type", bad)] if bad else []
        data += [f"{field} may not be set" for field in ("user", "role") if any(map(_getter(field), every))]
        who = " and ".join(setters)
        return f"seLinuxOptions ({who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)})"

    return rule


def _getter(field: str) -> Callable[[Object], Any]:
    return lambda part: part.get(field)


def _seccomp_annotations(pod: Object) -> str:
    annotations = _annotations(pod)
    names = {_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER_PREFIX}{each.get('name')}" for each in _containers(pod))}
    forbidden = sorted(
        f"{name}={_go_quoted(annotations[name])}"
        for name in names.intersection(annotations)
        if annotations[name] not in ("runtime/default", "docker/default")
        and not annotations[name].startswith("localhost/")
    )
    several = "s" if len(forbidden) > 1 else ""
    return f"seccompProfile (forbidden annotation{several} {', '.join(forbidden)})" if forbidden else ""


def _baseline_seccomp(pod: Object) -> str:
    setters, values = _profile_types(pod, "seccompProfile")
    if not setters:
        return ""
    rule = f"must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return f"seccompProfile ({' and '.join(setters)} {rule})"


def _sysctls(allowed: frozenset[str]) -> Rule:
    def rule(pod: Object) -> str:
        names = [each.get("name") or "" for each in _context(_spec(pod)).get("sysctls") or ()]
        forbidden = [name for name in names if name not in allowed]
        return f"forbidden sysctls ({', '.join(forbidden)})" if forbidden else ""

    return rule


def _host_process(pod: Object) -> str:
    def forbidden(part: Object) -> bool:
        return bool((_context(part).get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(pod, forbidden)
    rule = "must not set securityContext.windowsOptions.hostProcess=true"
    return f"hostProcess ({' and '.join(setters)} {rule})" if setters else ""


def _escalation(pod: Object) -> str:
    who = _violators(pod, lambda each: _context(each).get("allowPrivilegeEscalation") is not False)
    rule = "must set securityContext.allowPrivilegeEscalation=false"
    return f"allowPrivilegeEscalation != false ({who} {rule})" if who else ""


def _restricted_capabilities(pod: Object) -> str:
    parts: list[str] = []
    who = _violators(
        pod, lambda each: "ALL" not in ((_context(each).get("capabilities") or {}).get("drop") or ())
    )
    if who:
        parts.append(f'{who} must set securityContext.capabilities.drop=["ALL"]')
    extra = {name for each in _containers(pod) for name in _added(each)} - {"NET_BIND_SERVICE"}
    if extra:
        adders = _violators(pod, lambda each: bool(extra.intersection(_added(each))))
        parts.append(
            f"{adders} must not include {_quoted(sorted(extra))} in securityContext.capabilities.add"
        )
    return f"unrestricted capabilities ({'; '.join(parts)})" if parts else ""


def _volumes(pod: Object) -> str:
    found: dict[str, list[str]] = {}
    for volume in _spec(pod).get("volumes") or ():
        types = [name for name in volume if name != "name"]
        if types and not _SAFE_VOLUMES.intersection(types):
            found.setdefault(types[0], []).append(volume.get("name") or "")
    if not found:
        return ""
    names = [name for each in found.values() for name in each]
    verb = "use" if len(names) > 1 else "uses"
    types_text = f"type{'s' if len(found) > 1 else ''} {_quoted(sorted(found))}"
    return f"restricted volume types ({_named('volume', names)} {verb} restricted volume {types_text})"


def _non_root(pod: Object) -> str:
    setters = _setters(pod, lambda part: _context(part).get("runAsNonRoot") is False)
    if setters:
        rule = "must not set securityContext.runAsNonRoot=false"
        return f"runAsNonRoot != true ({' and '.join(setters)} {rule})"
    if _context(_spec(pod)).get("runAsNonRoot") is not None:
        return ""
    unset = _violators(pod, lambda each: _context(each).get("runAsNonRoot") is None)
    rule = "must set securityContext.runAsNonRoot=true"
    return f"runAsNonRoot != true (pod or {unset} {rule})" if unset else ""


def _root_user(pod: Object) -> str:
    setters = _setters(pod, lambda part: _context(part).get("runAsUser") == 0)
    return f"runAsUser=0 ({' and '.join(setters)} must not set runAsUser=0)" if setters else ""


def _restricted_seccomp(pod: Object) -> str:
    forbidden = _baseline_seccomp(pod)
    if forbidden or _context(_spec(pod)).get("seccompProfile") is not None:
        return forbidden
    unset = _violators(pod, lambda each: _context(each).get("seccompProfile") is None)
    rule = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return f"seccompProfile (pod or {unset} {rule})" if unset else ""


def _except_windows(rule: Rule) -> Rule:
    return lambda pod: "" if (_spec(pod).get("os") or {}).get("name") == "windows" else rule(pod)


def _except_user_namespaces(rule: Rule) -> Rule:
    return lambda pod: "" if _spec(pod).get("hostUsers") is False else rule(pod)


_BASELINE = (
    Check("appArmorProfile", ((0, _app_armor),)),
    Check("capabilities_baseline", ((0, _baseline_capabilities),)),
    Check("hostNamespaces", ((0, _host_namespaces),)),
    Check("hostPathVolumes", ((0, _host_paths),)),
    Check("hostPorts", ((0, _host_ports),)),
    Check("hostProbesAndHostLifecycle", ((34, _probes_and_lifecycle),)),
    Check("privileged", ((0, _privileged),)),
    Check("procMount", ((0, _proc_mount), (35, _except_user_namespaces(_proc_mount)))),
    Check("seLinuxOptions", ((0, _selinux(_SELINUX_TYPES_0)), (31, _selinux(_SELINUX_TYPES_31)))),
    Check("seccompProfile_baseline", ((0, _seccomp_annotations), (19, _baseline_seccomp))),
    Check(
        "sysctls",
        (
            (0, _sysctls(_SYSCTLS_0)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    Check("windowsHostProcess", ((0, _host_process),)),
)
"""Checks of `baseline` in the order of their messages."""

_RESTRICTED = (
    Check("allowPrivilegeEscalation", ((8, _escalation), (25, _except_windows(_escalation)))),
    Check(
        "capabilities_restricted",
        ((22, _restricted_capabilities), (25, _except_windows(_restricted_capabilities))),
        replaces="capabilities_baseline",
    ),
    Check("procMount_restricted", ((35, _proc_mount),), replaces="procMount"),
    Check("restrictedVolumes", ((0, _volumes),), replaces="hostPathVolumes"),
    Check("runAsNonRoot", ((0, _non_root), (35, _except_user_namespaces(_non_root)))),
    Check("runAsUser", ((23, _root_user), (35, _except_user_namespaces(_root_user)))),
    Check(
        "seccompProfile_restricted",
        ((19, _restricted_seccomp), (25, _except_windows(_restricted_seccomp))),
        replaces="seccompProfile_baseline",
    ),
)
"""Checks that `restricted` adds, in the order of their messages."""
