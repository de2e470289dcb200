"""Chapter 4: the status of a website."""

from typing import Annotated

from kubewright import (
    Condition,
    Context,
    CustomResource,
    ObjectMeta,
    Operator,
    Spec,
    Status,
    resource,
    set_condition,
)
from kubewright.api import Column, Ge, LabelSelector, Le, ListMap, MinLen, field
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


# --8<-- [start:status]
class SiteStatus(Status):
    """Observed state of a website."""

    conditions: Annotated[list[Condition], ListMap("type")] = field(default_factory=list)

    ready_replicas: int = 0
    """Number of web servers that are ready."""

    url: str = ""
    """Address in the cluster."""


@resource(
    group="web.example.com",
    version="v1",
    columns=(
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Replicas", ".spec.replicas", "integer"),
        Column("URL", ".status.url"),
    ),
)
class Site(CustomResource[SiteSpec, SiteStatus]):
    """A website with one page."""


# --8<-- [end:status]


operator = Operator("sites")


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


# --8<-- [start:reconcile]
@operator.reconcile(Site, owns=(ConfigMap, Deployment, Service))
async def reconcile(site: Site, ctx: Context[Site]) -> None:
    """Create and update the objects of a website, and report its state."""
    await ctx.ensure([page_of(site), servers_of(site), address_of(site)])
    servers = await ctx.client.get_or_none(Deployment, site.name, namespace=site.metadata.namespace)
    ready = (servers.status.ready_replicas or 0) if servers is not None and servers.status is not None else 0
    site.status.ready_replicas = ready
    site.status.url = f"http://{site.name}.{site.metadata.namespace}.svc"
    is_ready = ready >= site.spec.replicas
    condition = Condition(
        type="Ready",
        status="True" if is_ready else "False",
        reason="Serving" if is_ready else "Starting",
        message=f"{ready} of {site.spec.replicas} web servers are ready",
        observed_generation=site.metadata.generation,
    )
    if set_condition(site.status, condition):
        ctx.event("Normal", condition.reason, condition.message)
    await ctx.update_status()


# --8<-- [end:reconcile]
