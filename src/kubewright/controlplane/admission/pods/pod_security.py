"""PodSecurity: Pod Security Standards by namespace labels.

`pod-security.kubernetes.io/enforce`, `warn` and `audit` set a level: `privileged`, `baseline` or
`restricted`. `enforce` applies to pods; `warn` and `audit` also to the pod templates of workloads. Setting a
stricter `enforce` level returns warnings about existing pods that violate it. The labels with the suffix
`-version` select the Kubernetes version whose rules apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kubewright.api.errors import invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin, AdmissionRule
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.stored_objects import UndecodableObjects
from kubewright.controlplane.admission.rejection import reject
from kubewright.controlplane.informers import Informers

from .pod_security_checks import evaluate

PREFIX = "pod-security.kubernetes.io/"
_ENFORCED = f"{PREFIX}enforce-policy"
"""Audit annotation: the level that a pod was checked against."""
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


class PodSecurity(AdmissionPlugin):
    """Rejects and warns according to the labels of the namespace."""

    name = "PodSecurity"
    validating = True
    rules = (
        AdmissionRule(("CREATE", "UPDATE"), "", ("pods", "pods/ephemeralcontainers", "namespaces")),
        *(AdmissionRule(("CREATE", "UPDATE"), group, (resource,)) for group, resource in _TEMPLATES),
    )

    def __init__(self, informers: Informers) -> None:
        self._informers = informers

    async def validate(self, request: AdmissionAttributes) -> None:
        """Check a pod, a pod template, or the labels of a namespace."""
        if request.resource.resource == "namespaces":
            await self._validate_namespace(request)
            return
        namespace = await self._informers.namespace(request.namespace)
        labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
        if not any(name.startswith(PREFIX) for name in labels):
            if request.resource.resource == "pods":
                request.audit_annotations[_ENFORCED] = "privileged:latest"
            return
        key = (request.resource.group, request.resource.resource)
        is_pod = key == ("", "pods")
        path = () if is_pod else _TEMPLATES[key]
        pod = _pod(request.object, path)
        if not pod.get("spec"):
            return
        if is_pod:
            if request.operation == "UPDATE" and not _changes_images(pod, _pod(request.old_object, path)):
                return
            level, version = _policy(labels, "enforce")
            request.audit_annotations[_ENFORCED] = f"{level}:{version}"
            violations = evaluate(level, version, pod)
            if violations:
                raise reject(request, f'violates PodSecurity "{level}:{version}": {violations}')
        level, version = _policy(labels, "warn")
        violations = evaluate(level, version, pod)
        if violations:
            request.warn(f'would violate PodSecurity "{level}:{version}": {violations}')
        level, version = _policy(labels, "audit")
        violations = evaluate(level, version, pod)
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
        try:
            found, _ = await store.list_objects(version, namespace)
        except UndecodableObjects:
            return ["failed to list pods while checking new PodSecurity enforce level"]
        guilty: dict[str, list[str]] = {}
        for pod in found:
            violations = evaluate(*policy, pod, details=False)
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


def _pod(obj: Object | None, path: Iterable[str]) -> Object:
    value: Any = obj
    for step in path:
        value = (value or {}).get(step)
    return value or {}


def _changes_images(pod: Object, old: Object) -> bool:
    """Report whether an update adds or removes a container or changes an image; other updates are exempt."""
    new_spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    for part in ("containers", "initContainers"):
        if _images(new_spec, part) != _images(old_spec, part):
            return True
    known = dict(_images(old_spec, "ephemeralContainers"))
    return any(
        name not in known or known[name] != image for name, image in _images(new_spec, "ephemeralContainers")
    )


def _images(spec: Object, part: str) -> list[tuple[str, str]]:
    return [(each.get("name") or "", each.get("image") or "") for each in spec.get(part) or ()]
