"""Pod Security levels of namespaces."""

from __future__ import annotations

from typing import Any

NAMESPACES = "/api/v1/namespaces"
LEVEL = "pod-security.kubernetes.io/"


async def test_invalid_levels_and_versions_are_rejected(cluster: Any) -> None:
    labels = {f"{LEVEL}enforce": "foo", f"{LEVEL}warn-version": "v1.x"}
    wrong = await cluster.rejected(NAMESPACES, "x", metadata={"labels": labels})
    assert wrong == {
        f"metadata.labels[{LEVEL}enforce]": (
            'Invalid value: "foo": must be one of privileged, baseline, restricted'
        ),
        f"metadata.labels[{LEVEL}warn-version]": 'Invalid value: "v1.x": must be "latest" or "v1.x"',
    }


async def test_a_stricter_level_warns_about_violating_pods(cluster: Any) -> None:
    host = {"containers": [{"name": "c", "image": "i"}], "hostNetwork": True}
    for name in ("b", "a"):
        await cluster.create(f"{NAMESPACES}/ns/pods", name, spec=host)
    status, _ = await cluster.patch(
        f"{NAMESPACES}/ns", {"metadata": {"labels": {f"{LEVEL}enforce": "baseline"}}}
    )
    assert status == 200
    assert cluster.warnings == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 1 other pod): host namespaces",
    ]
    await cluster.patch(f"{NAMESPACES}/ns", {"metadata": {"labels": {f"{LEVEL}enforce": "privileged"}}})
    assert cluster.warnings == []


async def test_violations_are_warned_about(cluster: Any) -> None:
    await cluster.patch(f"{NAMESPACES}/ns", {"metadata": {"labels": {f"{LEVEL}enforce": "baseline"}}})
    host = {"containers": [{"name": "c", "image": "i"}], "hostNetwork": True}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": host}
    path = "/apis/apps/v1/namespaces/ns/deployments"
    await cluster.create(path, "d", spec={"selector": {"matchLabels": {"a": "b"}}, "template": template})
    assert cluster.warnings == [
        'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    ]
