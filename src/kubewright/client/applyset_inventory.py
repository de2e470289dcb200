"""The inventory of an ApplySet: which kinds and namespaces its members have, and the members themselves.

It follows the ApplySet specification (KEP-3659), as `kubectl apply --prune --applyset` does. The parent of a
set, a ConfigMap, has the label `applyset.kubernetes.io/id` and annotations with the kinds and namespaces of
the members; each member has the label `applyset.kubernetes.io/part-of`. The inventory is extended before
members of new kinds are applied, and reduced after others were deleted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupKind, GroupVersionKind
from kubewright.api.unstructured import Unstructured

from .kind_types import metadata_of

if TYPE_CHECKING:
    from .client import Client

ID_LABEL: Final = "applyset.kubernetes.io/id"
PART_OF_LABEL: Final = "applyset.kubernetes.io/part-of"
TOOLING_ANNOTATION: Final = "applyset.kubernetes.io/tooling"
KINDS_ANNOTATION: Final = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES_ANNOTATION: Final = "applyset.kubernetes.io/additional-namespaces"

CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
PARENT: Final = GroupVersionKind("", "v1", "ConfigMap")


class ApplySetError(Exception):
    """A set cannot be applied or deleted; the message is one line with the object and the reason."""


class SetMember(NamedTuple):
    """Reference to a stored object of a set."""

    gvk: GroupVersionKind
    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Inventory:
    """Kinds and namespaces of the members of a set."""

    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()


def apply_set_id(name: str, *, namespace: str, kind: GroupKind = PARENT.group_kind) -> str:
    """Return the value of the labels for a set with this parent."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind.kind}.{kind.group}".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


@dataclass(frozen=True)
class ApplySetParent:
    """The ConfigMap that is the parent of a set, and has its inventory."""

    client: Client
    name: str
    namespace: str
    tooling: str
    """`<name>/<version>` of the tool that manages the set."""

    @property
    def id(self) -> str:
        """The value of the labels of the set."""
        return apply_set_id(self.name, namespace=self.namespace)

    async def read(self) -> Inventory:
        """Return the inventory; raises `ApplySetError` if the set belongs to another tool."""
        parent = await self.client.get_or_none(PARENT, self.name, namespace=self.namespace)
        if parent is None:
            # Members of an inventory that was deleted with its namespace; only the CRDs are left then.
            return Inventory(frozenset((CRD,)))
        annotations, labels = parent.metadata.annotations or {}, parent.metadata.labels or {}
        where = f"ConfigMap {self.namespace}/{self.name}"
        tool, _, _ = annotations.get(TOOLING_ANNOTATION, "").rpartition("/")
        if tool != self.tooling.rpartition("/")[0]:
            raise ApplySetError(f"{where} is not an ApplySet of this tool (tooling: {tool or 'not set'})")
        if labels.get(ID_LABEL) != self.id:
            raise ApplySetError(f"{where} has the label {ID_LABEL}={labels.get(ID_LABEL)}, not {self.id}")
        return Inventory(
            frozenset(GroupKind.parse(each) for each in _split(annotations.get(KINDS_ANNOTATION))),
            frozenset((self.namespace, *_split(annotations.get(NAMESPACES_ANNOTATION)))),
        )

    async def write(self, inventory: Inventory) -> None:
        """Create or update the parent with an inventory."""
        namespaces = sorted(inventory.namespaces - {self.namespace})
        parent = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {ID_LABEL: self.id},
                "annotations": {
                    TOOLING_ANNOTATION: self.tooling,
                    KINDS_ANNOTATION: ",".join(sorted(str(each) for each in inventory.kinds)),
                    NAMESPACES_ANNOTATION: ",".join(namespaces),
                },
            },
        }
        await self.client.apply(Unstructured(parent), force=True)

    async def delete(self) -> None:
        """Delete the parent, if it exists."""
        await self.client.delete(PARENT, self.name, namespace=self.namespace, missing_ok=True)

    async def members(self, inventory: Inventory) -> list[SetMember]:
        """Return the members by the kinds and namespaces of an inventory."""
        namespaces = sorted(inventory.namespaces | {self.namespace})
        return await list_members(self.client, self.id, kinds=inventory.kinds, namespaces=namespaces)


async def list_members(
    client: Client, set_id: str, *, kinds: Iterable[GroupKind], namespaces: Iterable[str]
) -> list[SetMember]:
    """Return the members of a set, by its label: of these kinds, in these namespaces or cluster-scoped."""
    found: list[SetMember] = []
    for kind in sorted(kinds):
        versions = await client.mapper.versions_for(kind)
        if not versions:
            continue  # the CRD of this kind was deleted, and its objects with it
        gvk = kind.with_version(versions[0])
        resource = await client.mapper.resource_for(gvk)
        for namespace in namespaces if resource.namespaced else [None]:
            pager = client.list(metadata_of(gvk), namespace=namespace, labels={PART_OF_LABEL: set_id})
            try:
                async for each in pager:
                    metadata = each.metadata
                    labels, annotations = metadata.labels or {}, metadata.annotations or {}
                    uid = metadata.uid or ""
                    found.append(SetMember(gvk, each.name, each.namespace, uid, labels, annotations))
            except NotFound:
                client.mapper.invalidate()  # the CRD was deleted after the last discovery
                break
    return found


def _split(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


__all__ = [
    "CRD",
    "ID_LABEL",
    "KINDS_ANNOTATION",
    "NAMESPACES_ANNOTATION",
    "PARENT",
    "PART_OF_LABEL",
    "TOOLING_ANNOTATION",
    "ApplySetError",
    "ApplySetParent",
    "Inventory",
    "SetMember",
    "apply_set_id",
    "list_members",
]
