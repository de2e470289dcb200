"""The admission policies in CEL: the API server rejects and changes objects without a webhook."""

from pathlib import Path

import pytest

from kubewright.api import ObjectMeta
from kubewright.api.apps.v1 import Deployment, DeploymentSpec
from kubewright.api.core.v1 import Container, Namespace, Pod, PodSpec, PodTemplateSpec
from kubewright.api.errors import Invalid
from kubewright.api.meta import LabelSelector

POLICIES = Path(__file__).parents[2] / "examples" / "policies"


def deployment(namespace, name="web", replicas=1, **labels):
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "a"}), spec=PodSpec(containers=[Container(name="a", image="i")])
    )
    return Deployment(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=labels or None),
        spec=DeploymentSpec(
            replicas=replicas, selector=LabelSelector(match_labels={"app": "a"}), template=template
        ),
    )


async def namespace(world, name, **labels):
    full = f"{world.namespace}-{name}"
    await world.client.create(Namespace(metadata=ObjectMeta(name=full, labels=labels)))
    return full


async def test_validating_policy(cluster):
    await cluster.client.apply_yaml(POLICIES / "validating.yaml")
    prod, test = await namespace(cluster, "prod", env="prod"), await namespace(cluster, "test", env="test")
    with pytest.raises(Invalid, match="a Deployment in production needs 2 replicas, not 1"):
        await cluster.client.create(deployment(prod))
    await cluster.client.create(deployment(prod, replicas=2))
    await cluster.client.create(deployment(prod, "tool", **{"example.com/exempt": "true"}))
    await cluster.client.create(deployment(test))


async def test_mutating_policy(cluster):
    await cluster.client.apply_yaml(POLICIES / "mutating.yaml")
    team = await namespace(cluster, "team", team="blue")
    pod = Pod(
        metadata=ObjectMeta(name="a", namespace=team, labels={"app": "a"}),
        spec=PodSpec(containers=[Container(name="a", image="i")]),
    )
    assert (await cluster.client.create(pod)).metadata.labels == {"app": "a", "team": "blue"}
    other = await namespace(cluster, "other")
    pod.metadata = ObjectMeta(name="a", namespace=other)
    assert (await cluster.client.create(pod)).metadata.labels is None
