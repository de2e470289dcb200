"""CRDs written by this client can be used immediately."""

from __future__ import annotations

from typing import Any

from kubewright.api import Unstructured
from kubewright.client import Client


def definition(name: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.defined.example.com"},
        "spec": {
            "group": "defined.example.com",
            "scope": "Cluster",
            "names": {"plural": f"{name}s", "kind": name.title()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def test_new_crds_are_usable_immediately(client: Client) -> None:
    from kubewright.client.wait import condition

    for name in ("apple", "berry", "cherry"):
        made = await client.create(Unstructured(definition(name)))
        await client.wait(made, until=condition("Established"))
        body = {"apiVersion": "defined.example.com/v1", "kind": name.title(), "metadata": {"name": "a"}}
        assert (await client.create(Unstructured(body))).metadata.name == "a"
