"""An operator of kopf as a project: each Shop gets a ConfigMap, which another version creates again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

KOPF = """
import sys

sys.modules.update(dict.fromkeys(("kubernetes", "kubernetes_asyncio")))  # imported by kopf if installed

import kopf

from kubewright import Client
from kubewright.api.errors import AlreadyExists

kopf.on.login()(kopf.login_with_kubeconfig)


@kopf.on.startup()
async def configure(settings, memo, **_):
    settings.posting.enabled = False
    memo.client = Client.connect(metrics=False)


@kopf.on.create("example.com", "v1", "shops")
@kopf.on.resume("example.com", "v1", "shops")
async def ensure(name, namespace, spec, body, memo, **_):
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"image": spec["image"]},
    }
    kopf.adopt(settings, owner=body)
    try:
        await memo.client.create(settings, namespace=namespace)
    except AlreadyExists:
        pass


if __name__ == "__main__":
    kopf.run(standalone=True, clusterwide=True)
"""


def definition(**fields: Any) -> dict[str, Any]:
    """Return the CRD; `fields` are those of the spec."""
    spec = {"type": "object", "properties": fields or {"image": {"type": "string"}}}
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": loose}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com", "uid": "crd", "resourceVersion": "3"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def make_kopf_project(directory: Path) -> Path:
    """Write the program."""
    directory.mkdir(exist_ok=True)
    (directory / "shop.py").write_text(KOPF)
    return directory
