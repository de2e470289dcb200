"""Rules of security contexts, of pods and of containers."""

from __future__ import annotations

from typing import Any

from kubewright.controlplane.kinds.validation.formats import (
    MAX_INT32,
    Errors,
    choice,
    descending_path,
    in_range,
)
from kubewright.schema import field_errors as fe

from .operating_system import windows_option_errors

Object = dict[str, Any]

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
    """A value as messages show structures that have no names in JSON."""
    shown = fe.GoStruct()
    for field in fields:
        inner = value.get("seLinuxOptions" if field == "SELinuxOptions" else field[0].lower() + field[1:])
        if isinstance(inner, dict):
            names = ("Type", "LocalhostProfile") if "Profile" in field else ("Add", "Drop")
            inner = _as_struct(inner, names)
        shown[field] = inner
    return shown


_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PATH_LENGTH = 4095


def pod_security_errors(context: Object | None, spec: Object, path: str) -> Errors:
    """The security context of a pod."""
    if context is None:
        return []
    errors: Errors = []
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if context.get(field) is not None:
            errors += in_range(context[field], 0, MAX_INT32, f"{path}.{field}")
    for position, group in enumerate(context.get("supplementalGroups") or ()):
        errors += in_range(group, 0, MAX_INT32, f"{path}.supplementalGroups[{position}]")
    errors += _sysctl_errors(context.get("sysctls") or [], spec, f"{path}.sysctls")
    for field, allowed in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("Recursive",)),
    ):
        if context.get(field) is not None:
            errors += choice(context[field], allowed, f"{path}.{field}")
    errors += _seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += windows_option_errors(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + app_armor_errors(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _sysctl_errors(settings: list[Object], spec: Object, path: str) -> Errors:
    import re

    errors: Errors = []
    seen: set[str] = set()
    for position, setting in enumerate(settings):
        where, name = f"{path}[{position}].name", setting.get("name") or ""
        if not name:
            errors.append(fe.required(where, ""))
        elif len(name) > 253 or not re.fullmatch(rf"{_SYSCTL_SEGMENT}([./]{_SYSCTL_SEGMENT})*", name):
            shape = f"^({_SYSCTL_SEGMENT}[\\./])*{_SYSCTL_SEGMENT}$"
            text = f"must have at most 253 characters and match regex {shape}"
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


def _profile_type_errors(profile: Object, noun: str, path: str) -> Errors:
    kind = profile.get("type") or ""
    if not kind:
        return [fe.required(f"{path}.type", f"type is required when {noun} is set")]
    return choice(kind, _PROFILES, f"{path}.type")


def _seccomp_errors(profile: Object | None, path: str) -> Errors:
    if profile is None:
        return []
    errors = _profile_type_errors(profile, "seccompProfile", path)
    local, where = profile.get("localhostProfile"), f"{path}.localhostProfile"
    if profile.get("type") == "Localhost":
        if local is None:
            errors.append(fe.required(where, "must be set when seccomp type is Localhost"))
        else:
            errors += descending_path(local, where)
    elif local is not None:
        shown = _as_struct(profile, ("Type", "LocalhostProfile"))
        errors.append(fe.invalid(where, shown, "can only be set when seccomp type is Localhost"))
    return errors


def app_armor_errors(profile: Object | None, path: str) -> Errors:
    """An AppArmor profile of a pod or of a container."""
    if profile is None:
        return []
    errors = _profile_type_errors(profile, "appArmorProfile", path)
    local, where = profile.get("localhostProfile"), f"{path}.localhostProfile"
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


def container_security_errors(context: Object | None, path: str, *, host_users: bool) -> Errors:
    """The security context of a container."""
    if context is None:
        return []
    errors: Errors = []
    for field in ("runAsUser", "runAsGroup"):
        if context.get(field) is not None:
            errors += in_range(context[field], 0, MAX_INT32, f"{path}.{field}")
    mount = context.get("procMount")
    if mount is not None:
        errors += choice(mount, ("Default", "Unmasked"), f"{path}.procMount", required=False)
        if host_users and mount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            errors.append(fe.invalid(f"{path}.procMount", mount, text))
    errors += _seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(fe.invalid(path, _as_struct(context, _CONTEXT_FIELDS), text))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(fe.invalid(path, _as_struct(context, _CONTEXT_FIELDS), text))
    errors += windows_option_errors(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + app_armor_errors(context.get("appArmorProfile"), f"{path}.appArmorProfile")
