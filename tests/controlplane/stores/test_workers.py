"""A control plane and a worker on the store of the other process."""

from __future__ import annotations

import base64
from contextlib import AsyncExitStack
from pathlib import Path

import yaml

from kubewright.api import ObjectMeta
from kubewright.api.coordination.v1 import Lease
from kubewright.api.core.v1 import Namespace, Secret
from kubewright.controlplane import ControlPlane
from kubewright.storage import MemoryStorage
from kubewright.storage.socket.server import StorageServer
from kubewright.storage.socket.storage import SocketStorage


def _encryption(path: Path) -> Path:
    key = {"name": "key1", "secret": base64.b64encode(b"k" * 32).decode()}
    entry = {"resources": ["secrets"], "providers": [{"aesgcm": {"keys": [key]}}]}
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [entry],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_a_worker_reads_and_writes_encrypted_objects(tmp_path: Path) -> None:
    config = _encryption(tmp_path / "encryption.yaml")
    directory = tmp_path / "socket"
    directory.mkdir(mode=0o700)
    store = MemoryStorage()
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(
            ControlPlane(store=store, port=None, encryption_provider_config=config)
        )
        server = StorageServer(store, directory)
        await server.start()
        await owner.wait_until_idle()
        before = await store.revision()
        worker = await stack.enter_async_context(
            ControlPlane(
                store=SocketStorage(server.path),
                port=None,
                encryption_provider_config=config,
                is_worker=True,
            )
        )
        # The owner renews its lease meanwhile.
        written = [
            event.key for event in store.keyspace.events_after(before, "") if "/leases/" not in event.key
        ]
        assert written == [], "a worker writes no bootstrap objects"
        assert worker.authority.certificate == owner.authority.certificate
        one, two = owner.client(), worker.client()
        # The worker admits objects of a namespace that was just created through the other server.
        await one.create(Namespace(metadata=ObjectMeta(name="new")))
        metadata = ObjectMeta(name="s", namespace="new")
        created = await two.create(Secret(metadata=metadata, string_data={"a": "plain"}))
        assert await one.get(Secret, "s", namespace="new") == created
        stored = await store.get("/registry/secrets/new/s")
        assert stored is not None
        assert stored.value.startswith(b"k8s:enc:aesgcm:v1:key1:")
        leases = await two.list(Lease, namespace="kube-system")
        assert len(list(leases)) == 1, "all processes of a server have one identity"
