"""managedFields of bootstrap objects."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from kubewright.apiserver.resources.objects import deep_copy
from kubewright.controlplane import ControlPlane
from kubewright.controlplane.bootstrap.objects import _field_manager, _sent_by_server

CHECKED = ("kube-apiserver", "api-priority-and-fairness-config-producer-v1")


async def test_field_sets_are_those_of_the_field_managers() -> None:
    compared = 0
    async with ControlPlane(port=None) as plane:
        server = plane.server
        for store in list(server.stores):
            resource = store.resource
            version = resource.version(resource.storage_version)
            assert version is not None
            for item in (await store.storage.list(store.prefix)).items:
                obj = store.codec.unpack(item.value, item.mod_revision)
                metadata = obj["metadata"]
                entries = [each for each in metadata.get("managedFields") or () if each["manager"] in CHECKED]
                if len(entries) != 1:
                    continue
                if "aggregationRule" in obj:
                    obj["rules"] = None  # written by a controller
                kept = ("name", "namespace", "labels", "annotations", "generation")
                obj["metadata"] = {name: metadata[name] for name in kept if name in metadata}
                body = _sent_by_server(store, obj)
                manager = store.field_manager(version, "")
                updated = manager.update(None, deep_copy(body), _field_manager(store), datetime.now(UTC))
                (expected,) = updated["metadata"]["managedFields"]
                got = entries[0]["fieldsV1"]
                assert msgspec.json.encode(got) == msgspec.json.encode(expected["fieldsV1"]), metadata["name"]
                compared += 1
    assert compared > 150
