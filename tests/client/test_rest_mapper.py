"""Kinds, plurals, short names; discovery of both forms; reloading on a miss."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubewright.api import GroupVersionKind, MetaObject, ObjectMeta, Spec, Unstructured
from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.api.apps.v1 import Deployment
from kubewright.api.encoding import codec
from kubewright.client import Client, NoKindMatch, RESTMapper, condition, metadata_of


@pytest.mark.parametrize(
    "text",
    [
        "deploy",
        "deployment",
        "deployments",
        "Deployment",
        "deployments.apps",
        "deploy.v1.apps",
        "deployments.v1.apps",
    ],
)
async def test_kind_names_of_the_command_line(client: Client, text: str) -> None:
    assert (await client.mapper.resource_for(text)).gvk == Deployment.gvk


async def test_static_kinds_need_no_discovery(client: Client) -> None:
    async def fail(*args: object) -> object:
        raise AssertionError("a request was made")

    mapper = RESTMapper(None)  # type: ignore[arg-type]
    assert mapper.find_cached(Deployment) == mapper.find_cached(metadata_of("deploy"))
    assert (await mapper.resource_for(Deployment)).path("shop", "web", "scale") == (
        "/apis/apps/v1/namespaces/shop/deployments/web/scale"
    )


@pytest.mark.parametrize("kind", [Spec, MetaObject])
async def test_class_without_kind_is_rejected(client: Client, kind: Any) -> None:
    with pytest.raises(TypeError, match=r"does not declare a kind; add @resource\(group"):
        await client.get(kind, "x")


async def test_aggregated_and_legacy_discovery_agree(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubewright.client.discovery import discovery

    aggregated = await discovery.discover(client.rest)
    monkeypatch.setattr(discovery, "_AGGREGATED", "application/json")
    legacy = await discovery.discover(client.rest)

    def plain(found):
        return {
            (each.gvr, each.gvk, each.namespaced, each.short_names, tuple(sorted(each.subresources)))
            for each in found
        }

    assert len(aggregated) > 50
    # The core's componentstatuses and the like are the same in both; order within a group may differ.
    assert plain(aggregated) == plain(legacy)


async def test_kind_installed_later_is_mapped(client: Client) -> None:
    gvk = GroupVersionKind("later.example.com", "v1", "Late")
    with pytest.raises(NoKindMatch):
        await client.mapper.resource_for(gvk)
    definition = {
        "metadata": {"name": "lates.later.example.com"},
        "spec": {
            "group": "later.example.com",
            "names": {"plural": "lates", "singular": "late", "kind": "Late", "shortNames": ["lt"]},
            "scope": "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    made = await client.create(codec.from_plain(definition, CustomResourceDefinition))
    await client.wait(made, until=condition("Established"))
    client.mapper._clock = lambda: float("inf")
    found = None
    async with asyncio.timeout(60):
        while found is None:
            try:
                found = await client.mapper.resource_for("lt")
            except NoKindMatch:
                await asyncio.sleep(0.05)
    assert found.gvk == gvk
    late = await client.create(Unstructured.new(gvk, "one"))
    assert late.uid
    assert (await client.get("lates.later.example.com", "one")).uid == late.uid
    await client.delete(CustomResourceDefinition, "lates.later.example.com")
    assert ObjectMeta(name="one").name == late.name
