"""A small operator as a project: a Shop has a Deployment, and its password is in a Secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SHOP = '''
from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api import Rbac
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, EnvVar, PodSpec, PodTemplateSpec, Secret
from kubewright.api.meta import LabelSelector


class ShopSpec(Spec):
    image: str
    replicas: int = 1


@resource(group="example.com", version="v1")
class Shop(CustomResource[ShopSpec, None]):
    """A shop."""


operator = Operator("shop")
SECRETS = Rbac(groups=("core",), resources=("secrets",), verbs=("get", "list", "watch"))


@operator.reconcile(Shop, owns=(Deployment,))
async def reconcile(shop: Shop, ctx: Context[Shop]) -> None:
    labels = {"app": shop.name}
    found = await ctx.client.get_or_none(Secret, "db", namespace=shop.namespace)
    password = found.data["password"].decode() if found is not None and found.data else ""
    container = Container(name="web", image=shop.spec.image, env=[EnvVar(name="DB", value=password)])
    pod = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container]))
    spec = DeploymentSpec(
        replicas=shop.spec.replicas, selector=LabelSelector(match_labels=labels), template=pod
    )
    await ctx.ensure([Deployment(metadata=ObjectMeta(name=shop.name), spec=spec)])
'''
CREATED = "2026-03-01T10:00:00Z"


def make_shop(directory: Path, *edits: tuple[str, str]) -> Path:
    """Write the module, with texts replaced."""
    text = SHOP
    for before, after in edits:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    directory.mkdir(exist_ok=True)
    (directory / "shop.py").write_text(text)
    return directory


def shop(name: str = "books", **spec: Any) -> dict[str, Any]:
    """Return a Shop as a cluster returns it."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": CREATED,
        },
        "spec": {"image": "shop:1", **spec},
    }
