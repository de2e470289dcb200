"""Declaration of simulated nodes: a number of equal nodes, or a YAML file.

    nodes:
      - name: worker               # with count: worker-0, worker-1, ...
        count: 3
        zone: a
        region: eu
        capacity: {cpu: "16", memory: 64Gi}
        labels: {disk: ssd}
        taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
        images: ["docker.io/library/nginx:1.29"]
        unschedulable: false

    missingImages: ["*:404"]       # patterns of images that cannot be pulled, instead of the default

A file may also be a list of these, or one of them, or Node objects (`kind: Node`), whose metadata, spec and
status.capacity are used.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kubewright.api.values.names import check_dns_subdomain
from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.settings import SimulationSettings

DEFAULT_CAPACITY: Final[Mapping[str, str]] = {
    "cpu": "8",
    "memory": "32Gi",
    "pods": "110",
    "ephemeral-storage": "100Gi",
}
DEFAULT_NAME: Final = "node"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_FIELDS: Final = frozenset(
    (
        "name",
        "count",
        "capacity",
        "allocatable",
        "labels",
        "annotations",
        "taints",
        "zone",
        "region",
        "unschedulable",
        "images",
        "podCIDR",
        "internalIP",
    )
)


class NodeSpecError(ValueError):
    """A declaration of nodes is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One simulated node. Empty fields have the defaults of this module."""

    name: str
    capacity: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_CAPACITY))
    allocatable: Mapping[str, str] | None = None
    """Allocatable resources; the capacity unless given."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    zone: str = ""
    region: str = ""
    unschedulable: bool = False
    images: tuple[str, ...] = ()
    """Images that are present on the node from the start."""
    pod_cidr: str = ""
    internal_ip: str = ""

    def all_labels(self) -> dict[str, str]:
        """Return the labels of the Node object, including those that a kubelet sets."""
        architecture = ARCHITECTURES.get(platform.machine(), platform.machine() or "amd64")
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture,
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": architecture,
        }
        if self.zone:
            labels["topology.kubernetes.io/zone"] = self.zone
        if self.region:
            labels["topology.kubernetes.io/region"] = self.region
        return {**labels, **self.labels}


def numbered_nodes(count: int, name: str = DEFAULT_NAME) -> list[NodeSpec]:
    """Return `count` nodes with default capacity, named `node-0` and so on."""
    return [NodeSpec(name=f"{name}-{number}") for number in range(count)]


def load_nodes(declaration: int | str | Path | Iterable[NodeSpec | Object]) -> list[NodeSpec]:
    """Return the nodes of a count, a YAML file or a list of declarations; raise `NodeSpecError`."""
    if isinstance(declaration, int):
        return numbered_nodes(declaration)
    if isinstance(declaration, str) and declaration.isdecimal():
        return numbered_nodes(int(declaration))
    if isinstance(declaration, str | Path):
        return _read_file(Path(declaration))
    found: list[NodeSpec] = []
    for position, each in enumerate(declaration):
        found += [each] if isinstance(each, NodeSpec) else _parse(each, f"nodes[{position}]")
    return _checked(found)


def _read_file(path: Path) -> list[NodeSpec]:
    import yaml

    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise NodeSpecError(f"cannot read nodes from {path}: {error}") from None
    entries: list[Any] = []
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("nodes"), list):
            entries += document["nodes"]
        elif isinstance(document, dict) and document.get("kind") == "List":
            entries += document.get("items") or []
        elif isinstance(document, list):
            entries += document
        elif document is not None:
            entries.append(document)
    found: list[NodeSpec] = []
    for position, entry in enumerate(entries):
        found += _parse(entry, f"{path}: nodes[{position}]")
    return _checked(found)


def load_image_commands(declaration: object) -> dict[str, list[str]]:
    """Return the commands of images that a nodes file declares (`images: {nginx: [...]}`).

    Containers without a command run them with `--run-processes`. Raises `NodeSpecError`.
    """
    if not isinstance(declaration, str | Path) or str(declaration).isdecimal():
        return {}
    import yaml

    path = Path(declaration)
    found: dict[str, list[str]] = {}
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        images = document.get("images") if isinstance(document, dict) and "nodes" in document else None
        for image, command in (images or {}).items():
            if not isinstance(command, list) or not command:
                raise NodeSpecError(f"{path}: images[{image}]: expected a command as a list of words")
            found[str(image)] = [str(word) for word in command]
    return found


def load_settings(declaration: object) -> SimulationSettings:
    """Return the settings of a nodes file (`missingImages`), or the default; raise `NodeSpecError`."""
    settings = SimulationSettings()
    if not isinstance(declaration, str | Path) or str(declaration).isdecimal():
        return settings
    import yaml

    path = Path(declaration)
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        patterns = document.get("missingImages") if isinstance(document, dict) else None
        if patterns is None:
            continue
        if not isinstance(patterns, list):
            raise NodeSpecError(f"{path}: missingImages: expected a list of patterns")
        settings.missing_images = tuple(str(pattern) for pattern in patterns)
    return settings


def _parse(entry: object, where: str) -> list[NodeSpec]:
    if not isinstance(entry, dict):
        raise NodeSpecError(f"{where}: expected a mapping with the fields of a node")
    if entry.get("kind") == "Node":
        entry = _from_node(entry)
    unknown = sorted(str(key) for key in entry if key not in _FIELDS)
    if unknown:
        raise NodeSpecError(
            f"{where}: unknown field {unknown[0]!r}; expected one of {', '.join(sorted(_FIELDS))}"
        )
    name, count = str(entry.get("name") or DEFAULT_NAME), entry.get("count")
    if count is not None and (not isinstance(count, int) or count < 0):
        raise NodeSpecError(f"{where}: count must be a number of nodes, not {count!r}")
    names = [name] if count is None else [f"{name}-{number}" for number in range(count)]
    allocatable = entry.get("allocatable")
    return [
        NodeSpec(
            name=each,
            capacity={**DEFAULT_CAPACITY, **_texts(entry.get("capacity"))},
            allocatable=_texts(allocatable) if allocatable is not None else None,
            labels=_texts(entry.get("labels")),
            annotations=_texts(entry.get("annotations")),
            taints=tuple(dict(taint) for taint in entry.get("taints") or ()),
            zone=str(entry.get("zone") or ""),
            region=str(entry.get("region") or ""),
            unschedulable=bool(entry.get("unschedulable")),
            images=tuple(str(image) for image in entry.get("images") or ()),
            pod_cidr=str(entry.get("podCIDR") or ""),
            internal_ip=str(entry.get("internalIP") or ""),
        )
        for each in names
    ]


def _from_node(node: Object) -> Object:
    metadata, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    entry: Object = {
        "name": metadata.get("name"),
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "taints": spec.get("taints"),
        "unschedulable": spec.get("unschedulable"),
        "podCIDR": spec.get("podCIDR"),
        "capacity": status.get("capacity"),
        "allocatable": status.get("allocatable"),
    }
    return {key: value for key, value in entry.items() if value}


def _texts(values: Mapping[str, object] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (values or {}).items()}


def _checked(specs: list[NodeSpec]) -> list[NodeSpec]:
    seen: set[str] = set()
    for spec in specs:
        messages = check_dns_subdomain(spec.name)
        if messages:
            raise NodeSpecError(f"node name {spec.name!r} is not valid: {messages[0]}")
        if spec.name in seen:
            raise NodeSpecError(f"two nodes are named {spec.name!r}; choose another name, or use count")
        seen.add(spec.name)
    return specs
