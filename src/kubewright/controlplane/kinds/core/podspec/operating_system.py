"""Fields of pods that depend on the operating system."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import Errors, Rules
from kubewright.controlplane.kinds.validation.formats import dns_subdomain
from kubewright.schema import field_errors as fe

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


def check_operating_system(spec: Object, path: str) -> Errors:
    """Check the name of the operating system, and that no fields of another system are set."""
    if spec.get("os") is None:
        return []
    name = spec["os"].get("name")
    if not name:
        return [fe.required(f"{path}.os.name", "")]
    if name not in ("linux", "windows"):
        return [fe.not_supported(f"{path}.os", name, ("linux", "windows"))]
    return _check_linux(spec, path) if name == "linux" else _check_windows(spec, path)


def _check_linux(spec: Object, path: str) -> Errors:
    contexts = [(spec.get("securityContext") or {}, f"{path}.securityContext"), *_containers(spec, path)]
    return [
        fe.forbidden(f"{where}.windowsOptions", "windows options cannot be set for a linux pod")
        for context, where in contexts
        if context.get("windowsOptions") is not None
    ]


def _check_windows(spec: Object, path: str) -> Errors:
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


def check_host_process(spec: Object, path: str) -> Errors:
    """Check that all containers of a pod are HostProcess containers or none, and use the host network."""
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


def _check_credential_spec(text: str, path: str) -> Errors:
    if text == "":
        return [fe.invalid(path, text, "gmsaCredentialSpec cannot be an empty string")]
    if len(text) > _CREDENTIAL_KIB * 1024:
        return [fe.invalid(path, text, f"gmsaCredentialSpec size must be under {_CREDENTIAL_KIB} KiB")]
    return []


def _check_user_name(name: str, path: str) -> Errors:
    return [fe.invalid(path, name, f"runAsUserName{text}") for text in _user_name_errors(name)]


def _user_name_errors(name: str) -> Iterator[str]:
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


WINDOWS_OPTIONS = Rules(
    {
        "gmsaCredentialSpecName": dns_subdomain,
        "gmsaCredentialSpec": _check_credential_spec,
        "runAsUserName": _check_user_name,
    }
)
"""Windows options of a pod or of a container."""
