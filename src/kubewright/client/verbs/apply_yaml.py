"""`apply_yaml`: apply the objects of manifests, as `kubectl apply --server-side -f`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from kubewright.api.unstructured import Unstructured
from kubewright.client.manifest_files import ManifestObject, read_manifests
from kubewright.client.wait import condition

if TYPE_CHECKING:
    from kubewright.client.client import Client

DEFAULT_FIELD_MANAGER = "kubewright"
CRD_TIMEOUT = 30.0


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
    for number, manifest in enumerate(objects):
        try:
            obj = await client.apply(
                Unstructured(manifest.data),
                namespace=namespace,
                force=force,
                dry_run=dry_run,
                field_manager=owner,
            )
            if not dry_run and _defines_kind_of(obj, objects[number + 1 :]):
                await client.wait(obj, until=condition("Established"), timeout=CRD_TIMEOUT)
        except Exception as error:
            error.add_note(f"while applying {manifest}; {number} of {len(objects)} objects were applied")
            raise
        yield obj


def _defines_kind_of(obj: Unstructured, others: Sequence[ManifestObject]) -> bool:
    """Whether an object is a CRD whose custom resources come later in the same manifest."""
    if obj.kind != "CustomResourceDefinition":
        return False
    spec = obj.raw.get("spec") or {}
    kind = (spec.get("names") or {}).get("kind")
    return any(
        each.data["kind"] == kind and each.data["apiVersion"].partition("/")[0] == spec.get("group")
        for each in others
    )
