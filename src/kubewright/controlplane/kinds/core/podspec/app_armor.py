"""AppArmor profiles in annotations, which `appArmorProfile` has replaced."""

from __future__ import annotations

from kubewright.api.field_errors import quote
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.validation.formats import Errors
from kubewright.schema import field_errors as fe

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


def copy_app_armor_profiles(pod: Object) -> list[str]:
    """Copy the profiles of annotations to the fields of a new pod; return warnings."""
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    if (spec.get("os") or {}).get("name") == "windows":
        return []
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    warnings: list[str] = []
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            key = f"{ANNOTATION}{container.get('name') or ''}"
            if key not in annotations or (container.get("securityContext") or {}).get("appArmorProfile"):
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
