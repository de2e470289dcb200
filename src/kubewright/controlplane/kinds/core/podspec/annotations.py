"""Annotations of pods and pod templates that the API server validates."""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation import Errors
from kubewright.schema import field_errors as fe

from .security import ANNOTATION as APP_ARMOR
from .security import app_armor_annotation_errors, app_armor_match_errors, match_errors

MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_PROFILES = ("runtime/default", "docker/default", "unconfined")


def annotation_errors(annotations: Object, spec: Object, path: str) -> Errors:
    """Check the annotations of a pod or of a template."""
    errors: Errors = []
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(fe.invalid(f"{path}[{MIRROR}]", annotations[MIRROR], text))
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_deletion_cost(cost):
        errors.append(fe.invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))
    for key in sorted(annotations):
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            errors += _seccomp_errors(annotations[key], f"{path}.{key}")
    return errors + app_armor_annotation_errors(annotations, spec, path)


def annotation_match_errors(annotations: Object, spec: Object, path: str) -> Errors:
    """Check that annotations of a new pod or template match the fields that replaced them."""
    errors: Errors = []
    holders = [(spec, _SECCOMP_POD, path)]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            key = f"{_SECCOMP_CONTAINER}{container.get('name') or ''}"
            holders.append((container, key, f"{path}.{kind}[{position}]"))
    for holder, key, where in holders:
        profile = (holder.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            at = f"{where}.securityContext.seccompProfile"
            errors += match_errors(profile, annotations[key], "seccomp", at)
    return errors + app_armor_match_errors(annotations, spec, path)


def annotation_change_errors(new: Object, old: Object, path: str) -> Errors:
    """Check that immutable annotations of a pod have not changed."""
    errors: Errors = []
    for key in sorted(old.keys() | new.keys()):
        if key in old and new.get(key) != old[key]:
            if key.startswith(APP_ARMOR):
                text = "may not remove or update AppArmor annotations"
                errors.append(fe.forbidden(f"{path}[{key}]", text))
            elif key == MIRROR:
                text = "may not remove or update mirror pod annotation"
                errors.append(fe.forbidden(f"{path}[{key}]", text))
        elif key not in old:
            if key.startswith(APP_ARMOR):
                errors.append(fe.forbidden(f"{path}[{key}]", "may not add AppArmor annotations"))
            elif key == MIRROR:
                errors.append(fe.forbidden(f"{path}[{key}]", "may not add mirror pod annotation"))
    return errors


def _is_deletion_cost(text: str) -> bool:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (digits.startswith("0") and text != "0"):
        return False
    return len(digits) <= 10 and -(1 << 31) <= int(text) < 1 << 31


def _seccomp_errors(profile: str, path: str) -> Errors:
    if profile in _SECCOMP_PROFILES:
        return []
    if profile.startswith("localhost/"):
        from kubewright.controlplane.kinds.validation.formats import descending_path

        return descending_path(profile.removeprefix("localhost/"), path)
    return [fe.invalid(path, profile, "must be a valid seccomp profile")]
