"""`Site`, the kind of most planted operators with built-in children, and short builders for children."""

from __future__ import annotations

from typing import Annotated, Any

from kubewright import Condition, CustomResource, ObjectMeta, Spec, Status, resource
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import (
    ConfigMap,
    Container,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PodSpec,
    PodTemplateSpec,
    Secret,
    VolumeResourceRequirements,
)
from kubewright.api.markers import Ge, ListMap
from kubewright.api.meta import LabelSelector

from .kinds import GROUP, NAMESPACE


class SiteSpec(Spec):
    """Desired state of a site."""

    replicas: Annotated[int, Ge(0)] = 1
    image: str = "web:1"
    secret_name: str | None = None
    config_name: str | None = None
    hosts: list[str] = []
    cache: bool = False
    team: str | None = None
    max_age: int | None = None


class SiteStatus(Status):
    """Observed state of a site."""

    observed_generation: int | None = None
    ready_replicas: int | None = None
    phase: str | None = None
    message: str | None = None
    resource_id: str | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(group=GROUP, version="v1")
class Site(CustomResource[SiteSpec, SiteStatus]):
    """A web site."""


def site(name: str = "shop", namespace: str = NAMESPACE, **spec: Any) -> Site:
    """Return a site."""
    return Site(metadata=ObjectMeta(name=name, namespace=namespace), spec=SiteSpec(**spec))


def meta(name: str, of: Site, **fields: Any) -> ObjectMeta:
    """Return the metadata of a child, in the namespace of its site."""
    return ObjectMeta(name=name, namespace=of.metadata.namespace, **fields)


def config_map(name: str, of: Site, **data: str) -> ConfigMap:
    """Return a ConfigMap."""
    return ConfigMap(metadata=meta(name, of), data=data)


def claim(name: str, of: Site) -> PersistentVolumeClaim:
    """Return a PersistentVolumeClaim of 1 Gi."""
    size = VolumeResourceRequirements(requests={"storage": "1Gi"})
    spec = PersistentVolumeClaimSpec(access_modes=["ReadWriteOnce"], resources=size)
    return PersistentVolumeClaim(metadata=meta(name, of, labels={"site": of.name}), spec=spec)


def deployment(of: Site, *, name: str = "", annotations: dict[str, str] | None = None) -> Deployment:
    """Return the Deployment of a site; `annotations` are those of the pods."""
    name = name or of.name
    labels = {"site": name}
    pod = PodSpec(containers=[Container(name="web", image=of.spec.image)])
    return Deployment(
        metadata=meta(name, of),
        spec=DeploymentSpec(
            replicas=of.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels, annotations=annotations), spec=pod),
        ),
    )


def user_secret(name: str = "tls", **data: str) -> Secret:
    """Return a Secret that a user creates."""
    values = {key: value.encode() for key, value in data.items()}
    return Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=values)


def user_config(name: str = "settings", **data: str) -> ConfigMap:
    """Return a ConfigMap that a user creates."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data)
