"""The version of Kubernetes that has written a store.

A private key has the version of the last control plane, and the revision up to which other versions may have
written. Objects up to that revision are decoded with the types of the present version when they are read, as
kube-apiserver decodes all objects: unknown fields are not shown, absent ones get their defaults.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from kubewright.storage.contract import KeyExists, RevisionMismatch

from .credentials.credentials import PRIVATE

if TYPE_CHECKING:
    from kubewright.api.kubernetes_version import KubernetesVersion
    from kubewright.apiserver.server import APIServer
    from kubewright.storage.contract import Storage

KEY = f"{PRIVATE}kubernetes-version"


class _Writer(msgspec.Struct):
    version: str
    revision: int


async def adopt_store(
    storage: Storage, server: APIServer, version: KubernetesVersion, *, writes: bool
) -> None:
    """Decode the objects of other versions when they are read; record the version if `writes`."""
    item = await storage.get(KEY)
    known = None if item is None else msgspec.json.decode(item.value, type=_Writer)
    if known is None or known.version != str(version):
        known = _Writer(str(version), await storage.revision())
        value = msgspec.json.encode(known)
        if writes:
            # A replica that starts at the same time records it as well.
            with contextlib.suppress(KeyExists, RevisionMismatch):
                if item is None:
                    await storage.create(KEY, value)
                else:
                    await storage.update(KEY, value, expected=item.mod_revision)
    for store in server.stores:
        if not store.resource.custom:
            store.resource.schema_revision = known.revision
