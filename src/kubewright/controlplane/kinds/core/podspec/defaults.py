"""Defaults of pods and pod templates.

Some defaults apply to pods only: requests from limits, host ports, service links. Templates do not get them,
so that new defaults do not change stored workloads.

Fields of pod specs whose feature gates are off by default: dropped, as kube-apiserver does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubewright.api.values.quantity import Quantity
from kubewright.apiserver.resources.objects import Object

_FILE_MODE = 0o644
_IMAGE = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._:/-]*?)(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_IMAGE_PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def all_containers(spec: Object, kinds: tuple[str, ...] = _CONTAINERS) -> Iterator[Object]:
    """Yield the containers of a spec."""
    for kind in kinds:
        yield from spec.get(kind) or ()


def default_template(template: Object | None) -> None:
    """Apply the defaults of a pod template."""
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))


def default_pod(pod: Object) -> None:
    """Apply the defaults of a pod."""
    spec: Object = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    for container in all_containers(spec, ("initContainers", "containers")):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            container["resources"]["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    default_pod_status(pod.get("status") or {})


def default_pod_status(status: Object) -> None:
    """Sync `podIP` and `podIPs`."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address and addresses[0].get("ip"):
        status["podIP"] = addresses[0]["ip"]


def default_pod_spec(spec: Object) -> None:
    """Apply the defaults that pods and templates share."""
    drop_disabled_fields(spec)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for container in all_containers(spec):
        default_container(container)
    round_quantities(spec.get("overhead"))


def default_container(container: Object) -> None:
    """Apply the defaults of a container."""
    if not container.get("imagePullPolicy"):
        latest = image_tag(container.get("image") or "") == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        if source.get("fieldRef") is not None:
            source["fieldRef"].setdefault("apiVersion", "v1")
        if source.get("fileKeyRef") is not None:
            source["fileKeyRef"].setdefault("optional", False)
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and hook.get("httpGet") is not None:
            _default_request(hook["httpGet"])
    resources = container.get("resources") or {}
    round_quantities(resources.get("limits"))
    round_quantities(resources.get("requests"))


def _default_probe(probe: Object) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(field):
            probe[field] = value
    if probe.get("httpGet") is not None:
        _default_request(probe["httpGet"])
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_request(request: Object) -> None:
    request.setdefault("path", "/")
    request.setdefault("scheme", "HTTP")


def default_volume(volume: Object) -> None:
    """Apply the defaults of a volume; `emptyDir` if it has no source."""
    if len(volume) <= 1 and not (volume.keys() - {"name"}):
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_downward(item)
    for projection in (volume.get("projected") or {}).get("sources") or ():
        if projection.get("serviceAccountToken") is not None:
            projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (projection.get("downwardAPI") or {}).get("items") or ():
            _default_downward(item)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    default_disk(volume)
    if volume.get("image") is not None and not volume["image"].get("pullPolicy"):
        latest = image_tag(volume["image"].get("reference") or "") == "latest"
        volume["image"]["pullPolicy"] = "Always" if latest else "IfNotPresent"
    claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
    if claim is not None:
        claim.setdefault("volumeMode", "Filesystem")


def default_disk(holder: Object) -> None:
    """Apply the defaults of sources that volumes of pods and persistent volumes share."""
    for source, fields in _DISK_DEFAULTS.items():
        if holder.get(source) is not None:
            for field, value in fields.items():
                holder[source].setdefault(field, value)


_DISK_DEFAULTS: dict[str, Object] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _default_downward(item: Object) -> None:
    if item.get("fieldRef") is not None:
        item["fieldRef"].setdefault("apiVersion", "v1")


def image_tag(image: str) -> str:
    """Return the tag of an image; `latest` if it has neither tag nor digest, empty if it is malformed."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return ""
    first, slash, rest = found["name"].partition("/")
    if not (slash and ("." in first or ":" in first or first == "localhost" or first != first.lower())):
        first, rest = "docker.io", found["name"] if slash else f"library/{found['name']}"
    if len(first) + 1 + len(rest) > 255 or not _IMAGE_PATH.fullmatch(rest):
        return ""
    return found["tag"] or ("" if found["digest"] else "latest")


def round_quantities(amounts: Object | None) -> None:
    """Round quantities up to milli-units, in place."""
    for name, text in (amounts or {}).items():
        quantity = Quantity(text)
        if quantity.nanos % 1_000_000:
            nanos = -(-quantity.nanos // 1_000_000) * 1_000_000
            assert amounts is not None
            amounts[name] = str(Quantity.from_nanos(nanos, quantity.format))


def drop_disabled_fields(spec: Object) -> None:
    """Remove stop signals, whose feature gate is disabled in all versions, and a `lifecycle` without fields.

    Fields of other disabled features are dropped when objects are decoded.
    """
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            lifecycle = container.get("lifecycle")
            if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
                del container["lifecycle"]
