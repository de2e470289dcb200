"""Chapter 3: the objects of a website."""

from typing import Annotated

from kubewright import Context, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api import Column, Ge, LabelSelector, Le, MinLen
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    PodSpec,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
    Volume,
    VolumeMount,
)


class SiteSpec(Spec):
    """Desired state of a website."""

    html: Annotated[str, MinLen(1)]
    """Content of the front page."""

    replicas: Annotated[int, Ge(1), Le(5)] = 1
    """Number of web servers."""


@resource(group="web.example.com", version="v1", columns=(Column("Replicas", ".spec.replicas", "integer"),))
class Site(CustomResource[SiteSpec, None]):
    """A website with one page."""


operator = Operator("sites")


# --8<-- [start:children]
def page_of(site: Site) -> ConfigMap:
    """Return the content, which the web servers mount."""
    return ConfigMap(metadata=ObjectMeta(name=site.name), data={"index.html": site.spec.html})


def servers_of(site: Site) -> Deployment:
    """Return the web servers."""
    labels = {"site": site.name}
    mount = VolumeMount(name="page", mount_path="/usr/share/nginx/html")
    container = Container(
        name="nginx",
        image="nginx:1.29",
        ports=[ContainerPort(container_port=80)],
        volume_mounts=[mount],
    )
    volume = Volume(name="page", config_map=ConfigMapVolumeSource(name=site.name))
    return Deployment(
        metadata=ObjectMeta(name=site.name),
        spec=DeploymentSpec(
            replicas=site.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container], volumes=[volume])
            ),
        ),
    )


def address_of(site: Site) -> Service:
    """Return the Service, which gives the web servers one address."""
    spec = ServiceSpec(selector={"site": site.name}, ports=[ServicePort(port=80)])
    return Service(metadata=ObjectMeta(name=site.name), spec=spec)


@operator.reconcile(Site, owns=(ConfigMap, Deployment, Service))
async def reconcile(site: Site, ctx: Context[Site]) -> None:
    """Create and update the objects of a website."""
    await ctx.ensure([page_of(site), servers_of(site), address_of(site)])


# --8<-- [end:children]
