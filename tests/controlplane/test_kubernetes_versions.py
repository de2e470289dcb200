"""Control planes of each supported version of Kubernetes."""

from __future__ import annotations

import pytest

from kubewright.api.gvk import GroupKind
from kubewright.api.kubernetes_version import supported
from kubewright.controlplane import ControlPlane
from kubewright.testing.server import TestServer

VERSIONS = [str(version) for version in supported()]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_version_starts_and_publishes_itself(version: str) -> None:
    async with ControlPlane(kubernetes_version=version, port=None) as plane:
        found = await plane.client().version()
        assert (found["minor"], found["gitVersion"]) == (version[2:], f"v{version}.0")
        assert found["minCompatibilityMinor"] == str(int(version[2:]) - 1)


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Kubernetes 1\.20 is not supported; use one of 1\.33"):
        ControlPlane(kubernetes_version="1.20")


@pytest.mark.control_plane(kubernetes="1.33")
async def test_the_marker_selects_a_version(control_plane: TestServer, kubernetes_version: str) -> None:
    assert kubernetes_version == str(control_plane.plane.kubernetes_version) == "1.33"
    claims = GroupKind("resource.k8s.io", "ResourceClaim")  # stable since 1.34
    assert not await control_plane.client().mapper.versions_for(claims)
