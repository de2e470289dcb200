"""Chapter 5: webhooks."""

import re
from collections.abc import Iterable
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
from kubewright.api import Column, FieldError, Ge, LabelSelector, Le, ListMap, MinLen, field
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

    language: str = ""
    """Language of the page, such as `en`; by default that of the `lang` attribute."""


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


# --8<-- [start:webhooks]
_LANGUAGE = re.compile(r'<html[^>]*\blang="([a-z]{2})"')


@operator.default(Site)
def set_language(site: Site) -> None:
    """Read the language from the page, if the user has not set it."""
    found = _LANGUAGE.search(site.spec.html)
    site.spec.language = site.spec.language or (found[1] if found else "en")


@operator.validate(Site)
def validate(new: Site, old: Site | None) -> Iterable[FieldError]:
    """Reject pages that the web server would show as text, and a language that changes."""
    if "<" not in new.spec.html:
        yield FieldError.invalid("spec.html", new.spec.html, "must contain HTML elements")
    if old is not None and old.spec.language != new.spec.language:
        yield FieldError.invalid("spec.language", new.spec.language, "cannot be changed")


# --8<-- [end:webhooks]
