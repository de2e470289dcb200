"""Features of pods that a version of Kubernetes has disabled, where a field alone cannot be dropped.

Fields of disabled features are dropped by the schema (`BuiltinTypes.enabled_definitions`). Some features are
more than a field: an image volume is dropped with its mounts, and a restart policy depends on its value and
on the type of its container.
"""

from __future__ import annotations

from collections.abc import Callable

from kubewright.api.kubernetes_version import KubernetesVersion
from kubewright.apiserver.resources.objects import Object

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_PATHS = {
    "Pod": "spec",
    "PodTemplate": "template.spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        "spec.template.spec",
    ),
}


def _drop_image_volumes(spec: Object) -> None:
    volumes = spec.get("volumes") or []
    names = {volume.get("name") for volume in volumes if volume.get("image") is not None}
    if not names:
        return
    _assign(spec, "volumes", [volume for volume in volumes if volume.get("image") is None])
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            mounts = container.get("volumeMounts") or []
            _assign(container, "volumeMounts", [mount for mount in mounts if mount.get("name") not in names])


def _assign(holder: Object, field: str, items: list[Object]) -> None:
    if items:
        holder[field] = items
    else:
        holder.pop(field, None)


def _drop_restart_policies(spec: Object) -> None:
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            if kind != "initContainers" or container.get("restartPolicy") != "Always":
                container.pop("restartPolicy", None)


_FEATURES: tuple[tuple[str, str, Callable[[Object], None]], ...] = (
    ("ImageVolume", "", _drop_image_volumes),
    ("ContainerRestartRules", "1.34-", _drop_restart_policies),
)
"""Feature gates, the versions that drop the feature, and the function that does."""


def dropped_features(kind: str, version: KubernetesVersion) -> Callable[[Object], None] | None:
    """Return a function that drops the disabled features of an object; `None` if all are enabled."""
    path = _PATHS.get(kind)
    drops = [
        drop for gate, versions, drop in _FEATURES if version.includes(versions) and not version.enables(gate)
    ]
    if path is None or not drops:
        return None
    names = path.split(".")

    def drop(obj: Object) -> None:
        spec: Object | None = obj
        for name in names:
            spec = spec.get(name) if isinstance(spec, dict) else None
        if isinstance(spec, dict):
            for each in drops:
                each(spec)

    return drop
