"""Resource quotas and limit ranges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubewright.api.errors import Forbidden


async def quota(cluster: Any, hard: dict[str, str], **spec: Any) -> None:
    await cluster.make(f"{cluster.core}/resourcequotas", "ResourceQuota", "q", spec={"hard": hard, **spec})
    await cluster.plane.wait_until_idle()


async def used(cluster: Any) -> Any:
    return (await cluster.client.get(f"{cluster.core}/resourcequotas/q"))["status"]["used"]


def sized(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}


async def test_objects_are_counted(cluster: Any) -> None:
    await cluster.config_map("before")
    await quota(cluster, {"count/configmaps": "3", "secrets": "1"})
    assert await used(cluster) == {"count/configmaps": "2", "secrets": "0"}
    await cluster.config_map("third")
    with pytest.raises(Forbidden) as excinfo:
        await cluster.config_map("fourth")
    assert excinfo.value.message == (
        'configmaps "fourth" is forbidden: exceeded quota: q, requested: count/configmaps=1, '
        "used: count/configmaps=3, limited: count/configmaps=3"
    )
    await cluster.client.delete(f"{cluster.core}/configmaps/third")
    await cluster.plane.wait_until_idle()
    await cluster.config_map("fourth")


async def test_requests_of_pods_count_against_the_quota(cluster: Any) -> None:
    await quota(cluster, {"requests.cpu": "1", "pods": "10"})
    await cluster.pod("a", spec=sized("600m"))
    assert await used(cluster) == {"requests.cpu": "600m", "pods": "1"}
    with pytest.raises(
        Forbidden, match=r"exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m"
    ):
        await cluster.pod("b", spec=sized("600m"))
    with pytest.raises(Forbidden, match=r"failed quota: q: must specify requests.cpu for: c"):
        await cluster.pod("c")
    assert await used(cluster) == {"requests.cpu": "600m", "pods": "1"}


async def test_quota_scopes(cluster: Any) -> None:
    await quota(cluster, {"pods": "1"}, scopes=["BestEffort"])
    await cluster.pod("sized", spec=sized("1"))
    await cluster.pod("a")
    with pytest.raises(Forbidden, match="exceeded quota"):
        await cluster.pod("b")


async def test_concurrent_creates_do_not_exceed_a_quota(cluster: Any) -> None:
    await quota(cluster, {"count/secrets": "4"})
    results = await asyncio.gather(
        *(cluster.make(f"{cluster.core}/secrets", "Secret", f"s{number}") for number in range(10)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, dict) for each in results) == 4
    await cluster.plane.wait_until_idle()
    assert await used(cluster) == {"count/secrets": "4"}


async def test_dry_runs_are_checked_but_not_counted(cluster: Any) -> None:
    await quota(cluster, {"count/secrets": "1"})
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    for _ in range(2):
        await cluster.client.send("POST", f"{cluster.core}/secrets", body, query={"dryRun": "All"})
    assert await used(cluster) == {"count/secrets": "0"}
