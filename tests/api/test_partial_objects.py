"""Partial objects."""

import pytest

from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, PodSpec, PodTemplateSpec
from kubewright.api.encoding.codec import encode, loads
from kubewright.api.meta import CustomResource, ObjectMeta
from kubewright.api.objects import Spec, Status
from kubewright.api.partial_objects import PartialError, partial
from kubewright.api.values.quantity import Quantity


class AppSpec(Spec):
    size: int
    image: str
    paused: bool = False
    limits: dict[str, Quantity] | None = None


class AppStatus(Status):
    ready: bool = False


class App(CustomResource[AppSpec, AppStatus]):
    pass


def test_only_given_fields_are_encoded() -> None:
    wanted = partial(
        Deployment,
        metadata={"name": "web", "namespace": "default"},
        spec=partial(DeploymentSpec, replicas=0, paused=False, min_ready_seconds=None),
    )
    assert loads(encode(wanted)) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 0, "paused": False},
    }
    assert (wanted.gvk, wanted.name, wanted.namespace) == (Deployment.gvk, "web", "default")
    assert wanted.type is Deployment
    assert repr(wanted).startswith("partial(Deployment, {")


def test_required_fields_and_defaults() -> None:
    wanted = partial(App, spec=partial(AppSpec, paused=False, limits={"cpu": Quantity("0.5")}))
    assert wanted.raw == {"spec": {"paused": False, "limits": {"cpu": "500m"}}}


def test_nested_dicts_lists_and_structs() -> None:
    wanted = partial(
        Deployment,
        metadata=ObjectMeta(name="web"),
        spec={
            "template": partial(
                PodTemplateSpec,
                spec=partial(
                    PodSpec, containers=[{"name": "a", "image_pull_policy": "Always"}, Container(name="b")]
                ),
            ),
            "minReadySeconds": 3,
        },
    )
    assert wanted.raw["spec"] == {
        "template": {"spec": {"containers": [{"name": "a", "imagePullPolicy": "Always"}, {"name": "b"}]}},
        "minReadySeconds": 3,
    }
    assert wanted.raw["metadata"] == {"name": "web"}


def test_unknown_names_are_errors() -> None:
    with pytest.raises(PartialError, match="DeploymentSpec has no field 'replcas'; did you mean 'replicas'"):
        partial(DeploymentSpec, replcas=1)
    with pytest.raises(
        PartialError, match=r"Deployment\.spec\.template has no field 'x'; it has metadata, spec"
    ):
        partial(Deployment, spec={"template": {"x": 1}})
    with pytest.raises(PartialError, match=r"PodSpec\.containers\[0\] has no field 'img'"):
        partial(PodSpec, containers=[{"img": "x"}])
    with pytest.raises(PartialError, match=r"App\.spec has no field 'sise'; did you mean 'size'"):
        partial(App, spec={"sise": 1})
