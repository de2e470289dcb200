"""Security contexts of pods and of containers.

AppArmor profiles in annotations, which `appArmorProfile` has replaced.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.go_format import quote
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import ID, Check, Enum, Errors, Required, Rules
from kubewright.controlplane.kinds.validation.formats import descending_path
from kubewright.schema import field_errors as fe

from .operating_system import WINDOWS_OPTIONS

if TYPE_CHECKING:
    from .containers import PodContext

_CONTEXT_FIELDS = (
    "Capabilities",
    "Privileged",
    "SELinuxOptions",
    "WindowsOptions",
    "RunAsUser",
    "RunAsGroup",
    "RunAsNonRoot",
    "ReadOnlyRootFilesystem",
    "AllowPrivilegeEscalation",
    "ProcMount",
    "SeccompProfile",
    "AppArmorProfile",
)


def _as_struct(value: Object, fields: tuple[str, ...]) -> fe.GoStruct:
    """Format a value as Go formats a structure without JSON names."""
    shown = fe.GoStruct()
    for field in fields:
        inner = value.get("seLinuxOptions" if field == "SELinuxOptions" else field[0].lower() + field[1:])
        if isinstance(inner, dict):
            names = ("Type", "LocalhostProfile") if "Profile" in field else ("Add", "Drop")
            inner = _as_struct(inner, names)
        shown[field] = inner
    return shown


_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PROFILES = Enum("Localhost", "RuntimeDefault", "Unconfined")
_PATH_LENGTH = 4095


def _check_sysctls(settings: list[Object], path: str, context: PodContext) -> Errors:
    spec = context.spec
    errors: Errors = []
    seen: set[str] = set()
    for position, setting in enumerate(settings):
        where, name = f"{path}[{position}].name", setting.get("name") or ""
        if not name:
            errors.append(fe.required(where, ""))
        elif len(name) > 253 or not re.fullmatch(rf"{_SYSCTL_SEGMENT}([./]{_SYSCTL_SEGMENT})*", name):
            pattern = f"^({_SYSCTL_SEGMENT}[\\./])*{_SYSCTL_SEGMENT}$"
            text = f"must have at most 253 characters and match regex {pattern}"
            errors.append(fe.invalid(where, name, text))
        elif name in seen:
            errors.append(fe.duplicate(where, name))
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            errors.append(fe.invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        if spec.get("hostIPC") and plain.startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")):
            errors.append(fe.invalid(where, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return errors


def _check_localhost_profile(profile: Object, path: str) -> Errors:
    local, where = profile.get("localhostProfile"), f"{path}.localhostProfile"
    if profile.get("type") == "Localhost":
        if local is None:
            return [fe.required(where, "must be set when seccomp type is Localhost")]
        return descending_path(local, where)
    if local is None:
        return []
    shown = _as_struct(profile, ("Type", "LocalhostProfile"))
    return [fe.invalid(where, shown, "can only be set when seccomp type is Localhost")]


def _check_app_armor(profile: Object, path: str) -> Errors:
    local, where = profile.get("localhostProfile"), f"{path}.localhostProfile"
    errors = _APP_ARMOR_TYPE(profile, path)
    if errors:
        return errors
    if profile["type"] != "Localhost":
        if local is not None:
            errors.append(fe.invalid(where, local, "can only be set when AppArmor type is Localhost"))
        return errors
    if not local:
        errors.append(fe.required(where, "must be set when AppArmor type is Localhost"))
    elif local != local.strip():
        errors.append(fe.invalid(where, local, "must not be padded with whitespace"))
    if len(local or "") > _PATH_LENGTH:
        errors.append(fe.too_long(where, _PATH_LENGTH))
    return errors


def _check_proc_mount(mount: str, path: str, context: PodContext) -> Errors:
    if mount not in ("Default", "Unmasked"):
        return [fe.not_supported(path, mount, ("Default", "Unmasked"))]
    if mount != "Unmasked" or not context.host_users:
        return []
    return [fe.invalid(path, mount, "`hostUsers` must be false to use `Unmasked`")]


def _check_escalation(security: Object, path: str) -> Errors:
    if security.get("allowPrivilegeEscalation") is not False:
        return []
    errors: Errors = []
    if security.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(fe.invalid(path, _as_struct(security, _CONTEXT_FIELDS), text))
    if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
        text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errors.append(fe.invalid(path, _as_struct(security, _CONTEXT_FIELDS), text))
    return errors


_SECCOMP = Rules(
    [{"type": [Required("type is required when seccompProfile is set"), _PROFILES]}, _check_localhost_profile]
)
_APP_ARMOR_TYPE = Rules({"type": [Required("type is required when appArmorProfile is set"), _PROFILES]})
POD_SECURITY = Rules(
    {
        "fsGroup": ID,
        "runAsUser": ID,
        "runAsGroup": ID,
        "supplementalGroups[*]": ID,
        "sysctls": Check(_check_sysctls, context=True),
        "fsGroupChangePolicy": Enum("Always", "OnRootMismatch"),
        "supplementalGroupsPolicy": Enum("Merge", "Strict"),
        "seLinuxChangePolicy": Enum("Recursive"),
        "seccompProfile?": _SECCOMP,
        "windowsOptions?": WINDOWS_OPTIONS,
        "appArmorProfile": _check_app_armor,
    }
)
"""The security context of a pod; the context is a `PodContext`."""
CONTAINER_SECURITY = Rules(
    [
        {
            "runAsUser": ID,
            "runAsGroup": ID,
            "procMount": Check(_check_proc_mount, context=True),
            "seccompProfile?": _SECCOMP,
        },
        _check_escalation,
        {"windowsOptions?": WINDOWS_OPTIONS, "appArmorProfile": _check_app_armor},
    ]
)
"""The security context of a container; the context is a `PodContext`."""


ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL = "localhost/"
_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault", "docker/default": "RuntimeDefault"}
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def profile_of(annotation: str) -> Object | None:
    """Return the profile of an annotation value."""
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    if annotation.startswith(_LOCAL) and annotation != _LOCAL:
        return {"type": "Localhost", "localhostProfile": annotation.removeprefix(_LOCAL)}
    return None


def annotation_of(profile: Object | None) -> str:
    """Return the annotation value of a profile; empty if it has none."""
    match profile:
        case {"type": "Unconfined"}:
            return "unconfined"
        case {"type": "RuntimeDefault"}:
            return "runtime/default"
        case {"type": "Localhost", "localhostProfile": name}:
            return f"{_LOCAL}{name}"
    return ""


def copy_app_armor_profiles(pod: Object) -> list[str]:
    """Copy the profiles of annotations to the fields of a new pod; return warnings.

    1.33 and earlier also copy those of fields to annotations, for kubelets that read annotations only.
    """
    writes_annotations = serving_version().includes("-1.33")
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    if (spec.get("os") or {}).get("name") == "windows":
        return []
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    warnings: list[str] = []
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            key = f"{ANNOTATION}{container.get('name') or ''}"
            own = (container.get("securityContext") or {}).get("appArmorProfile")
            if key not in annotations:
                value = annotation_of(own or whole) if writes_annotations else ""
                if value:
                    pod["metadata"].setdefault("annotations", {})[key] = value
                continue
            if own:
                continue
            profile = profile_of(annotations[key])
            if profile is not None and profile == whole:
                continue
            if profile is not None:
                container.setdefault("securityContext", {})["appArmorProfile"] = profile
            text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            warnings.append(f"metadata.annotations[{key}]: {text}")
    return warnings


def app_armor_match_errors(annotations: Object, spec: Object, path: str) -> Errors:
    """Check that annotations and fields name the same profiles."""
    if (spec.get("os") or {}).get("name") == "windows":
        return []
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    errors: Errors = []
    for kind in _CONTAINERS:
        for position, container in enumerate(spec.get(kind) or ()):
            profile = (container.get("securityContext") or {}).get("appArmorProfile") or whole
            annotation = annotations.get(f"{ANNOTATION}{container.get('name') or ''}")
            if profile is not None and annotation is not None:
                where = f"{path}.{kind}[{position}].securityContext.appArmorProfile"
                errors += match_errors(profile, annotation, "apparmor", where)
    return errors


def match_errors(profile: Object, annotation: str, noun: str, path: str) -> Errors:
    """Check that a profile matches the annotation for it."""
    kind, named = profile.get("type") or "", _TYPES.get(annotation)
    if annotation.startswith(_LOCAL):
        named = "Localhost"
    if kind in ("Unconfined", "RuntimeDefault", "Localhost") and named != kind:
        return [fe.forbidden(f"{path}.type", f"{noun} type in annotation and field must match")]
    if kind == "Localhost" and annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
        text = f"{noun} profile in annotation and field must match"
        return [fe.forbidden(f"{path}.localhostProfile", text)]
    return []


def app_armor_annotation_errors(annotations: Object, spec: Object, path: str) -> Errors:
    """Check the container names and profiles of annotations."""
    known = {one.get("name") for kind in _CONTAINERS for one in spec.get(kind) or ()}
    errors: Errors = []
    for key in sorted(annotations):
        if not key.startswith(ANNOTATION):
            continue
        name, where = key.removeprefix(ANNOTATION), f"{path}[{key}]"
        if name not in known:
            errors.append(fe.invalid(where, name, "container not found"))
        value = annotations[key]
        if value not in ("", "runtime/default", "unconfined") and not value.startswith(_LOCAL):
            errors.append(fe.invalid(where, value, f"invalid AppArmor profile name: {quote(value)}"))
    return errors
