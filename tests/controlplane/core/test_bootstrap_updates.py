"""Bootstrap objects of a store that an older version has written."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.controlplane.path_client import PathClient

from kubewright.apiserver.authentication.user import SYSTEM
from kubewright.controlplane import ControlPlane
from kubewright.storage import open_storage

RBAC = "/apis/rbac.authorization.k8s.io/v1"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
EXTRA = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}


async def change(client: PathClient, path: str, **fields: Any) -> None:
    obj = await client.get(path)
    annotations = fields.pop("annotations", {})
    obj["metadata"].setdefault("annotations", {}).update(annotations)
    await client.update(path, {**obj, **fields})


async def test_missing_rules_are_added_and_others_stay(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kubewright.controlplane")
    store = f"sqlite:{tmp_path / 'cluster.db'}"

    def plane() -> ControlPlane:
        return ControlPlane(store=open_storage(store), port=None, controllers=False)

    scheduler, drain = (
        f"{RBAC}/clusterroles/system:kube-scheduler",
        f"{RBAC}/clusterroles/system:node-proxier",
    )
    binding = f"{RBAC}/clusterrolebindings/system:kube-scheduler"
    level, schema = f"{FLOW}/prioritylevelconfigurations/system", f"{FLOW}/flowschemas/service-accounts"
    async with plane() as first:
        client = PathClient(first.server, SYSTEM)
        original = {path: await client.get(path) for path in (scheduler, drain, binding, level, schema)}
        await change(client, scheduler, rules=[*original[scheduler]["rules"][1:], EXTRA])
        unchanged = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
        await change(client, drain, rules=[EXTRA], annotations=unchanged)
        await change(client, binding, subjects=[])
        spec = original[level]["spec"]
        await change(
            client, level, spec={**spec, "limited": {**spec["limited"], "nominalConcurrencyShares": 7}}
        )
        own = {"apf.kubernetes.io/autoupdate-spec": "false"}
        schema_spec = {**original[schema]["spec"], "matchingPrecedence": 8999}
        await change(client, schema, spec=schema_spec, annotations=own)
    assert not [record for record in caplog.records if record.msg == "updated bootstrap object"]
    async with plane() as second:
        client = PathClient(second.server, SYSTEM)
        rules = (await client.get(scheduler))["rules"]
        assert sorted(map(str, rules)) == sorted(map(str, [*original[scheduler]["rules"], EXTRA]))
        assert (await client.get(drain))["rules"] == [EXTRA]
        assert (await client.get(binding))["subjects"] == original[binding]["subjects"]
        updated = await client.get(level)
        assert updated["spec"] == original[level]["spec"]
        assert updated["metadata"]["generation"] == 3
        assert (await client.get(schema))["spec"]["matchingPrecedence"] == 8999
    updates = [record for record in caplog.records if record.msg == "updated bootstrap object"]
    assert len(updates) == 3
    async with plane():
        pass
    updates = [record for record in caplog.records if record.msg == "updated bootstrap object"]
    assert len(updates) == 3, "the third start changes nothing"
