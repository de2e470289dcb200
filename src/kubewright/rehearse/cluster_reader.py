"""Reads the objects of a cluster: lists, page by page, and nothing else.

    async with Client.connect(load_config(context="staging")) as client:
        snapshot = await read_cluster(client, KindSelection.of_rules(rules), redactor=Redactor())

Only `GET` requests are sent: discovery, the version and lists. A credential with the verb `list` is enough.
Resources that it may not list, and those of extension API servers that do not respond, are left out and named
in the notes of the snapshot. Objects are redacted page by page, before they are stored anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import APIError, Expired, Forbidden, MethodNotAllowed, NotFound
from kubewright.api.gvk import GroupVersionResource

from .snapshot import ClusterSnapshot, SnapshotError

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.discovery.api_resource import APIResource
    from kubewright.recording.redaction import Redactor

    from .kind_selection import KindSelection

PAGE_SIZE = 500
_DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_RESTARTS = 3
"""How often a list is started again whose continue token has expired."""


async def read_cluster(
    client: Client,
    selection: KindSelection,
    *,
    redactor: Redactor | None,
    namespaces: Sequence[str] = (),
    source: str = "",
    on_resource: Callable[[str, int], None] | None = None,
) -> ClusterSnapshot:
    """Return the selected objects; with `namespaces`, namespaced ones only of these.

    `on_resource` is called with each resource and the number of objects that were read.
    """
    version = str((await client.version()).get("gitVersion") or "")
    snapshot = ClusterSnapshot(
        objects=[],
        source=source,
        kubernetes_version=version.removeprefix("v"),
        time=datetime.now(UTC),
        is_redacted=redactor is not None,
    )
    for resource in await _resources(client, selection):
        before = len(snapshot.objects)
        name = f"{resource.plural}.{resource.gvr.group}" if resource.gvr.group else resource.plural
        try:
            for namespace in namespaces if resource.namespaced and namespaces else ("",):
                snapshot.objects += await _read(client, resource, namespace, redactor)
        except Forbidden:
            snapshot.notes.append(f"{name} were not read: the user is not allowed to list them")
        except (MethodNotAllowed, NotFound):
            snapshot.notes.append(f"{name} were not read: they cannot be listed")
        except APIError as error:
            if error.code not in (502, 503, 504):
                raise SnapshotError(f"cannot list {name}: {error}") from None
            snapshot.notes.append(f"{name} were not read: {error}")
        if on_resource is not None:
            on_resource(name, len(snapshot.objects) - before)
    if not snapshot.objects:
        raise SnapshotError(
            f"no objects could be read: {'; '.join(snapshot.notes) or 'the cluster has none'}"
        )
    return snapshot


async def _resources(client: Client, selection: KindSelection) -> list[APIResource]:
    """Return the selected resources, each in the version in which its objects are stored, if it is known."""
    found: dict[tuple[str, str], list[APIResource]] = {}
    for each in await client.mapper.resources():
        if "list" in each.verbs and selection.includes(each.gvr.group, each.plural):
            found.setdefault((each.gvr.group, each.plural), []).append(each)
    stored: dict[tuple[str, str], str] = {}
    if any(len(versions) > 1 for versions in found.values()):
        try:
            async for definition in client.list(_DEFINITIONS):
                spec: dict[str, Any] = definition.raw["spec"]
                version = next((each["name"] for each in spec["versions"] if each.get("storage")), "")
                stored[spec["group"], spec["names"]["plural"]] = version
        except Forbidden:
            pass  # the preferred version is read
    return [
        next((each for each in versions if each.gvr.version == stored.get(key)), versions[0])
        for key, versions in found.items()
    ]


async def _read(
    client: Client, resource: APIResource, namespace: str, redactor: Redactor | None
) -> list[bytes]:
    """Return all objects of a resource as JSON."""
    for attempt in range(_RESTARTS):
        found: list[bytes] = []
        try:
            pages = client.list(resource.gvr, namespace=namespace or None, page_size=PAGE_SIZE)
            async for obj in pages:
                raw = {"apiVersion": str(resource.gvr.group_version), "kind": resource.gvk.kind, **obj.raw}
                found.append(msgspec.json.encode(redactor.redact(raw) if redactor is not None else raw))
            return found
        except Expired:
            if attempt == _RESTARTS - 1:
                raise
    return []
