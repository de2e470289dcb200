"""`apply_yaml`: apply the objects of manifests, as `kubectl apply --server-side -f`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from kubewright.api.gvk import GroupKind
from kubewright.api.unstructured import Unstructured
from kubewright.client.manifest_files import ManifestObject, read_manifests
from kubewright.client.set_writes import CRD, apply_each, wait_for_definition

if TYPE_CHECKING:
    from kubewright.client.client import Client

DEFAULT_FIELD_MANAGER = "kubewright"


async def apply_yaml(
    client: Client,
    source: str | os.PathLike[str],
    *,
    namespace: str | None,
    force: bool,
    dry_run: bool,
    field_manager: str,
) -> list[Unstructured]:
    """See `Client.apply_yaml`."""
    applied = apply_objects(
        client,
        read_manifests(source),
        namespace=namespace,
        force=force,
        dry_run=dry_run,
        field_manager=field_manager,
    )
    return [each async for each in applied]


async def apply_objects(
    client: Client,
    objects: Sequence[ManifestObject],
    *,
    namespace: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    field_manager: str = "",
) -> AsyncIterator[Unstructured]:
    """Apply objects in order, and return each one when it is applied. Options are those of `apply_yaml`."""
    owner = field_manager or client.options.field_manager or DEFAULT_FIELD_MANAGER
    kinds = {GroupKind(each.data["apiVersion"].rpartition("/")[0], each.data["kind"]) for each in objects}

    async def apply(manifest: ManifestObject) -> Unstructured:
        obj = await client.apply(
            Unstructured(manifest.data),
            namespace=namespace,
            force=force,
            dry_run=dry_run,
            field_manager=owner,
        )
        if not dry_run and _defined_kind(obj) in kinds:
            await wait_for_definition(client, obj)
        return obj

    async for obj in apply_each(objects, apply):
        yield obj


def _defined_kind(obj: Unstructured) -> GroupKind | None:
    """Return the kind that a CRD defines, or `None` if the object is not one."""
    if obj.gvk.group_kind != CRD:
        return None
    spec = obj.raw["spec"]
    return GroupKind(spec["group"], spec["names"]["kind"])
