"""The identity lease of an API server: a Lease in `kube-system` that is renewed while the server runs.

Clients list the API servers of a cluster by the label `apiserver.kubernetes.io/identity=kube-apiserver`.
Every server renews its own lease every ten seconds and deletes leases that have expired, once an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from kubewright.api.errors import APIError
from kubewright.api.values.times import now, parse_time
from kubewright.apiserver.rest.store import ResourceStore
from kubewright.apiserver.server import APIServer
from kubewright.background import run_forever
from kubewright.controlplane.bootstrap.objects import write_missing
from kubewright.storage.contract import KeyValue, RevisionMismatch, StorageError

logger = logging.getLogger("kubewright.controlplane")

RENEW_INTERVAL = 10.0
DURATION = 3600
LABEL = "apiserver.kubernetes.io/identity"
_NAMESPACE = "kube-system"


class IdentityLease:
    """Creates and renews the lease of one server, which is named after its host and port."""

    def __init__(self, server: APIServer, port: int | None) -> None:
        self.name = server_identity(port)
        self.holder = f"{self.name}_{uuid.uuid4()}"
        self._host = socket.gethostname()
        self._server = server
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Write the lease, and renew it until `stop`."""
        await self._try(self.renew)
        await self._try(self.delete_expired)
        self._task = run_forever(self._run, name="identity lease")

    async def stop(self) -> None:
        """Stop renewing; the lease expires."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        renewals = 0
        while True:
            await asyncio.sleep(RENEW_INTERVAL)
            renewals += 1
            await self._try(self.renew)
            if renewals % int(DURATION / RENEW_INTERVAL) == 0:
                await self._try(self.delete_expired)

    async def _try(self, step: Callable[[], Awaitable[None]]) -> None:
        """Call a step; a storage that cannot be written now is tried again after the interval."""
        try:
            await step()
        except (APIError, StorageError) as error:
            logger.warning("cannot renew identity lease", extra={"lease": self.name, "error": str(error)})

    async def renew(self) -> None:
        """Set the renew time and the holder; create the lease if it does not exist."""
        store = self._store()
        item = await store.storage.get(store.key(_NAMESPACE, self.name))
        spec = {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": DURATION,
            "renewTime": _micro_time(datetime.now(UTC)),
        }
        if item is None:
            labels = {LABEL: "kube-apiserver", "kubernetes.io/hostname": self._host}
            metadata = {"name": self.name, "namespace": _NAMESPACE, "labels": labels}
            await write_missing(
                self._server, "coordination.k8s.io", "leases", [{"metadata": metadata, "spec": spec}]
            )
            return
        lease = store.codec.unpack(item.value, item.mod_revision)
        lease["spec"] = {**(lease.get("spec") or {}), **spec}
        with contextlib.suppress(RevisionMismatch):
            store.written = await store.storage.update(
                item.key, store.codec.pack(lease), expected=item.mod_revision
            )

    async def delete_expired(self) -> None:
        """Delete identity leases of servers that have stopped."""
        store = self._store()
        page, errors = await store.storage.list_stored(store.range(_NAMESPACE))
        undecodable = {error.key for error in errors}
        for item in page.items:
            if item.key not in undecodable and self._is_expired(store, item):
                with contextlib.suppress(RevisionMismatch):
                    store.written = await store.storage.delete(item.key, expected=item.mod_revision)
                    logger.info("deleted an expired identity lease", extra={"key": item.key})

    def _is_expired(self, store: ResourceStore, item: KeyValue) -> bool:
        lease = store.codec.unpack(item.value, item.mod_revision)
        if LABEL not in (lease["metadata"].get("labels") or {}):
            return False
        spec = lease.get("spec") or {}
        renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds") or 0
        return not renewed or parse_time(renewed) + timedelta(seconds=seconds) < now()

    def _store(self) -> ResourceStore:
        store = self._server.store("coordination.k8s.io", "leases")
        assert store is not None, "leases are built in"
        return store


def server_identity(port: int | None) -> str:
    """Return the name of a server by its host and port."""
    host = socket.gethostname()
    identity = host if port is None else f"{host}:{port}"
    return f"apiserver-{hashlib.sha256(identity.encode()).hexdigest()[:26]}"


def _micro_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
