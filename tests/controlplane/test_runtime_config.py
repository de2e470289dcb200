"""`runtime_config`: which built-in API versions are served."""

from __future__ import annotations

import logging

import pytest

from kubewright.controlplane import ControlPlane


async def served(config: dict[str, bool]) -> dict[str, set[str]]:
    async with ControlPlane(port=None, controllers=False, runtime_config=config) as plane:
        return {
            f"{store.resource.group}/{store.resource.plural}": {each.name for each in store.resource.versions}
            for store in plane.server.stores
        }


async def test_versions_are_enabled_by_stage_group_and_resource() -> None:
    found = await served(
        {
            "api/beta": True,
            "coordination.k8s.io/v1beta1": False,
            "scheduling.k8s.io/v1alpha3/compositepodgroups": True,
            "scheduling.k8s.io/v1beta1": False,
            "apps/v1/controllerrevisions": False,
        }
    )
    assert found["certificates.k8s.io/clustertrustbundles"] == {"v1", "v1beta1"}
    assert "coordination.k8s.io/leasecandidates" not in found
    assert "scheduling.k8s.io/compositepodgroups" in found
    assert "scheduling.k8s.io/podgroups" not in found
    assert "apps/controllerrevisions" not in found
    assert found["apps/deployments"] == {"v1"}


async def test_unknown_groups_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"unknown api groups no\.such\.group"):
        await served({"no.such.group/v1": True})


async def test_versions_without_conversion_are_not_served(caplog: pytest.LogCaptureFixture) -> None:
    found = await served({"resource.k8s.io/v1beta1": True, "apps/v9": True})
    assert found["resource.k8s.io/resourceclaims"] == {"v1"}
    warnings = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert warnings == ["API version cannot be served", "API version does not exist"]


async def test_events_expire_after_the_given_time() -> None:
    async with ControlPlane(port=None, controllers=False, event_ttl=7200) as plane:
        for group in ("", "events.k8s.io"):
            store = plane.server.store(group, "events")
            assert store is not None
            assert store.resource.strategy.ttl == 7200
