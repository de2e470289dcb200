"""A platform API: a WebApp expands to a Secret, a Service, a ConfigMap, a Deployment and an autoscaler.

`compose` returns the graph of objects. The ConfigMap contains the address that the Service was given; the
Deployment starts when its configuration exists; the autoscaler is created when the Deployment is available.
"""

from __future__ import annotations

import base64
import secrets
from typing import Annotated

from kubewright import Client, Column, CustomResource, ObjectMeta, Operator, Spec, resource
from kubewright.api import Ge, Int32, LabelSelector, Le, Quantity
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.autoscaling.v2 import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from kubewright.api.core.v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    Container,
    ContainerPort,
    EnvFromSource,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Secret,
    SecretEnvSource,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubewright.composition import CompositionStatus, Graph

PASSWORD = "PASSWORD"


class WebAppSpec(Spec):
    """What a team declares."""

    image: str
    replicas: Annotated[Int32, Ge(0)] = 1
    """Number of pods; the minimum if `max_replicas` is set."""
    max_replicas: Annotated[Int32, Ge(1)] | None = None
    """Maximum number of pods for autoscaling; without it there is no autoscaler."""
    port: Annotated[Int32, Ge(1), Le(65535)] = 8080
    settings: dict[str, str] | None = None
    """Environment variables."""


class WebAppStatus(CompositionStatus):
    """State of the objects."""

    address: str | None = None
    """Address in the cluster."""
    ready_replicas: Int32 | None = None


@resource(
    group="platform.example.com",
    version="v1",
    columns=(
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Address", ".status.address"),
        Column("Pods", ".status.readyReplicas", "integer"),
        Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
)
class WebApp(CustomResource[WebAppSpec, WebAppStatus]):
    """A web application of a team."""


operator = Operator("platform")


@operator.compose(WebApp, owns=(Secret, Service, ConfigMap, Deployment, HorizontalPodAutoscaler))
async def compose(app: WebApp, client: Client) -> Graph:
    """Return the objects of a WebApp."""
    name, namespace = app.name, app.namespace
    labels = {"app.kubernetes.io/name": name}
    # A new password would restart the pods: keep that of the first call.
    stored = await client.get_or_none(Secret, f"{name}-credentials", namespace=namespace)
    password = stored.data[PASSWORD] if stored is not None and stored.data else new_password()

    graph = Graph()
    # Immutable, so that a leader which was paused here cannot replace the password of the next one.
    graph.add(
        "credentials",
        Secret(metadata=ObjectMeta(name=f"{name}-credentials"), data={PASSWORD: password}, immutable=True),
    )
    graph.add(
        "service",
        Service(
            metadata=ObjectMeta(name=name),
            spec=ServiceSpec(selector=labels, ports=[ServicePort(port=80, target_port=app.spec.port)]),
        ),
    )

    @graph.node
    def config(service: Service) -> ConfigMap:
        data = {"ADDRESS": address_of(service), "PORT": str(app.spec.port), **(app.spec.settings or {})}
        return ConfigMap(metadata=ObjectMeta(name=f"{name}-config"), data=data)

    @graph.node(after=("credentials",))
    def web(config: ConfigMap) -> Deployment:
        return deployment_for(app, labels, config)

    if app.spec.max_replicas is not None:
        graph.add("autoscaler", autoscaler_for(app), after=("web",))

    @graph.status
    def report(service: Service, web: Deployment) -> None:
        app.status.address = address_of(service)
        app.status.ready_replicas = (web.status.ready_replicas if web.status else None) or 0

    return graph


def new_password() -> bytes:
    """Return a random password."""
    return base64.urlsafe_b64encode(secrets.token_bytes(18))


def address_of(service: Service) -> str:
    """Return the URL of a Service."""
    assert service.spec is not None
    return f"http://{service.spec.cluster_ip}"


def deployment_for(app: WebApp, labels: dict[str, str], config: ConfigMap) -> Deployment:
    """Return the Deployment; another configuration is a rollout, since it changes the pod template."""
    version = {"platform.example.com/config": config.metadata.resource_version or ""}
    container = Container(
        name="web",
        image=app.spec.image,
        ports=[ContainerPort(container_port=app.spec.port)],
        env_from=[
            EnvFromSource(config_map_ref=ConfigMapEnvSource(name=f"{app.name}-config")),
            EnvFromSource(secret_ref=SecretEnvSource(name=f"{app.name}-credentials")),
        ],
        resources=ResourceRequirements(requests={"cpu": Quantity("100m")}),
    )
    return Deployment(
        metadata=ObjectMeta(name=app.name),
        spec=DeploymentSpec(
            # The autoscaler manages the number of pods, if there is one.
            replicas=app.spec.replicas if app.spec.max_replicas is None else None,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels, annotations=version), spec=PodSpec(containers=[container])
            ),
        ),
    )


def autoscaler_for(app: WebApp) -> HorizontalPodAutoscaler:
    """Return an autoscaler for a CPU utilization of 70 %."""
    utilization = MetricTarget(type="Utilization", average_utilization=70)
    return HorizontalPodAutoscaler(
        metadata=ObjectMeta(name=app.name),
        spec=HorizontalPodAutoscalerSpec(
            scale_target_ref=CrossVersionObjectReference(
                api_version="apps/v1", kind="Deployment", name=app.name
            ),
            min_replicas=max(app.spec.replicas, 1),
            max_replicas=app.spec.max_replicas or 1,
            metrics=[
                MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=utilization))
            ],
        ),
    )
