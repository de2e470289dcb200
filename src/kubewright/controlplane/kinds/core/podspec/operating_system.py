"""What a pod may say about the operating system that it runs on: Linux, Windows, or not yet decided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubewright.controlplane.kinds.validation.formats import Errors, choice, dns_subdomain
from kubewright.schema import field_errors as fe

Object = dict[str, Any]

_NOT_ON_WINDOWS = "cannot be set for a windows pod"
_POD_FIELDS = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)
_CONTAINER_FIELDS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_CREDENTIAL_KIB = 64
_DOMAIN_LENGTH, _USER_LENGTH = 256, 104
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOMAIN_LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"({_DOMAIN_LABEL}\.)+{_DOMAIN_LABEL}|{_DOMAIN_LABEL}")
_USER_CHARACTERS = frozenset('"/\\:;|=,+*?<>@[]')


def _containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            yield container.get("securityContext") or {}, f"{path}.{kind}[{position}].securityContext"


def operating_system_errors(spec: Object, path: str) -> Errors:
    """The name of the system, and fields that have no meaning on it."""
    if spec.get("os") is None:
        return []
    name = spec["os"].get("name")
    errors = choice(name, ("linux", "windows"), f"{path}.os" if name else f"{path}.os.name")
    if errors:
        return errors
    return _linux_errors(spec, path) if name == "linux" else _windows_errors(spec, path)


def _linux_errors(spec: Object, path: str) -> Errors:
    contexts = [(spec.get("securityContext") or {}, f"{path}.securityContext"), *_containers(spec, path)]
    return [
        fe.forbidden(f"{where}.windowsOptions", "windows options cannot be set for a linux pod")
        for context, where in contexts
        if context.get("windowsOptions") is not None
    ]


def _windows_errors(spec: Object, path: str) -> Errors:
    errors: Errors = []
    for field in _POD_FIELDS:
        holder = spec.get("securityContext") or {} if "." in field else spec
        value = holder.get(field.rpartition(".")[2])
        unset = value in (None, []) or (value is False and field in ("hostPID", "hostIPC"))
        if not unset:
            errors.append(fe.forbidden(f"{path}.{field}", _NOT_ON_WINDOWS))
    for inner, where in _containers(spec, path):
        errors += [
            fe.forbidden(f"{where}.{field}", _NOT_ON_WINDOWS)
            for field in _CONTAINER_FIELDS
            if inner.get(field) is not None
        ]
    return errors


def host_process_errors(spec: Object, path: str) -> Errors:
    """Containers that are processes of a Windows host: all of a pod or none, on the host's network."""
    whole = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    errors: Errors = []
    total = on_host = 0
    for context, where in _containers(spec, path):
        total += 1
        own = (context.get("windowsOptions") or {}).get("hostProcess")
        if whole is not None and own is not None and own != whole:
            text = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            errors.append(fe.invalid(f"{where}.windowsOptions.hostProcess", own, text))
        on_host += bool(whole if own is None else own)
    if not on_host:
        return errors
    if on_host != total:
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(fe.invalid(path, "", text))
    if not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(fe.invalid(f"{path}.hostNetwork", False, text))
    return errors


def windows_option_errors(options: Object | None, path: str) -> Errors:
    """The options that only Windows knows, of a pod or of a container."""
    errors: Errors = []
    if options is None:
        return errors
    name, text = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is not None:
        errors += dns_subdomain(name, f"{path}.gmsaCredentialSpecName")
    where = f"{path}.gmsaCredentialSpec"
    if text == "":
        errors.append(fe.invalid(where, text, "gmsaCredentialSpec cannot be an empty string"))
    elif text is not None and len(text) > _CREDENTIAL_KIB * 1024:
        size = f"gmsaCredentialSpec size must be under {_CREDENTIAL_KIB} KiB"
        errors.append(fe.invalid(where, text, size))
    user = options.get("runAsUserName")
    if user is not None:
        where = f"{path}.runAsUserName"
        errors += [fe.invalid(where, user, f"runAsUserName{wrong}") for wrong in _user_name_faults(user)]
    return errors


def _user_name_faults(name: str) -> Iterator[str]:
    parts = name.split("\\")
    if not name:
        yield " cannot be an empty string"
        return
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in name):
        yield " cannot contain control characters"
        return
    if len(parts) > 2:
        yield " cannot contain more than one backslash"
        return
    user = parts[-1]
    if len(parts) == 2:
        domain = parts[0]
        if len(domain) >= _DOMAIN_LENGTH:
            yield f"'s Domain length must be under {_DOMAIN_LENGTH} characters"
        if not (_NETBIOS.fullmatch(domain) or _DOMAIN.fullmatch(domain)):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "'s User cannot be empty"
    elif len(user) > _USER_LENGTH:
        yield f"'s User length must not be longer than {_USER_LENGTH} characters"
    if user and not user.strip(". "):
        yield "'s User cannot contain only periods or spaces"
    if _USER_CHARACTERS & set(user):
        yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
