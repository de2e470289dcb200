"""`kubernetes.aio` and `kubernetes_asyncio`, which share their interface, and `lightkube`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import kubernetes.aio
import kubernetes_asyncio
import kubernetes_asyncio.client
import kubernetes_asyncio.config
import kubernetes_asyncio.dynamic
import kubernetes_asyncio.watch
import lightkube
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ApiError, ConditionError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apiextensions_v1 import (
    CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
    CustomResourceValidation,
    JSONSchemaProps,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.operators import in_
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod, ServiceAccount
from lightkube.types import PatchType


@pytest.fixture(params=[kubernetes.aio, kubernetes_asyncio], ids=["kubernetes.aio", "kubernetes_asyncio"])
def package(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


@pytest.fixture
async def api(package: Any, up: Any) -> AsyncIterator[Any]:
    settings = package.client.Configuration()
    await package.config.load_kube_config(str(up.kubeconfig), client_configuration=settings)
    async with package.client.ApiClient(settings) as made:
        yield made


@pytest.fixture
async def namespace(package: ModuleType, api: Any, request: pytest.FixtureRequest) -> str:
    name = f"{package.__name__}-{request.node.originalname.removeprefix('test_')}"
    name = name.replace("_", "-").replace(".", "-")
    core = package.client.CoreV1Api(api)
    await core.create_namespace({"metadata": {"name": name}})
    # Controllers create the service account, without which pods are rejected, and the config map.
    async with asyncio.timeout(60):
        while not (
            (await core.list_namespaced_service_account(name)).items
            and (await core.list_namespaced_config_map(name)).items
        ):
            await asyncio.sleep(0.02)
    return name


async def test_objects_and_watch(package: Any, api: Any, namespace: str) -> None:
    core = package.client.CoreV1Api(api)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = await core.create_namespaced_pod(namespace, pod)
    assert made.spec.service_account_name == "default"
    assert made.status.phase == "Pending"
    version = made.metadata.resource_version

    async def change() -> None:
        await core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"a": "b"}}})
        await core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Running"}})
        await core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)

    seen = []
    changing = asyncio.create_task(change())
    async with package.watch.Watch() as watching:
        async for event in watching.stream(
            core.list_namespaced_pod, namespace, resource_version=version, timeout_seconds=60
        ):
            seen.append((event["type"], event["object"].status.phase))
            if event["type"] == "DELETED":
                break
    await changing
    # A pod is marked before it goes, even without grace.
    phases = [("MODIFIED", "Pending"), ("MODIFIED", "Running"), ("MODIFIED", "Running")]
    assert seen == [*phases, ("DELETED", "Running")]
    with pytest.raises(package.client.ApiException) as missing:
        await core.read_namespaced_pod("p", namespace)
    assert missing.value.status == 404
    names = [core.create_namespaced_config_map(namespace, {"metadata": {"name": f"c{i}"}}) for i in range(20)]
    await asyncio.gather(*names)
    listed = await core.list_namespaced_config_map(namespace, limit=8)
    assert (len(listed.items), listed.metadata.remaining_item_count) == (8, 13), "with kube-root-ca.crt"


async def test_dynamic_client(package: Any, api: Any, namespace: str) -> None:
    dyn = await package.dynamic.DynamicClient(api)
    deployments = await dyn.resources.get(api_version="apps/v1", kind="Deployment")
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    made = await deployments.server_side_apply(body=body, namespace=namespace, field_manager="tests")
    assert made.spec.replicas == 1
    body["spec"]["replicas"] = 2
    made = await deployments.server_side_apply(body=body, namespace=namespace, field_manager="tests")
    assert (made.spec.replicas, made.metadata.generation) == (2, 2)
    owners = {entry.manager: entry.operation for entry in made.metadata.managedFields}
    assert owners == {"tests": "Apply"}
    await deployments.delete(name="d", namespace=namespace)
    assert (await deployments.get(namespace=namespace)).items == []


@pytest.fixture
def light(up: Any) -> KubeConfig:
    return KubeConfig.from_file(str(up.kubeconfig))


def definition() -> CustomResourceDefinition:
    schema = JSONSchemaProps(
        type="object",
        properties={
            "spec": JSONSchemaProps(
                type="object", required=["size"], properties={"size": JSONSchemaProps(type="integer")}
            ),
            "status": JSONSchemaProps(type="object", properties={"ready": JSONSchemaProps(type="boolean")}),
        },
    )
    version = CustomResourceDefinitionVersion(
        name="v1",
        served=True,
        storage=True,
        schema=CustomResourceValidation(openAPIV3Schema=schema),
        subresources=CustomResourceSubresources(status={}),
    )
    return CustomResourceDefinition(
        metadata=ObjectMeta(name="lamps.light.example.com"),
        spec=CustomResourceDefinitionSpec(
            group="light.example.com",
            names=CustomResourceDefinitionNames(kind="Lamp", plural="lamps"),
            scope="Namespaced",
            versions=[version],
        ),
    )


def test_lightkube(light: KubeConfig) -> None:
    with lightkube.Client(light, namespace="lightkube", field_manager="tests") as client:
        client.create(Namespace(metadata=ObjectMeta(name="lightkube")))
        made = client.create(ConfigMap(metadata=ObjectMeta(name="c", labels={"a": "1"}), data={"x": "y"}))
        assert made.metadata is not None
        made.data = {"x": "z"}
        assert client.replace(made).data == {"x": "z"}
        with pytest.raises(ApiError) as conflict:
            client.replace(made)
        assert conflict.value.status.reason == "Conflict"
        patched = client.patch(ConfigMap, "c", {"data": {"q": "r"}}, patch_type=PatchType.MERGE)
        assert patched.data == {"x": "z", "q": "r"}
        applied = client.apply(ConfigMap(metadata=ObjectMeta(name="c"), data={"x": "1"}), force=True)
        assert applied.data == {"x": "1", "q": "r"}
        assert [each.metadata.name for each in client.list(ConfigMap, labels={"a": in_(["1", "2"])})] == ["c"]
        assert len(list(client.list(ConfigMap, namespace="*", chunk_size=2))) >= 3
        client.create(definition())
        client.wait(CustomResourceDefinition, "lamps.light.example.com", for_conditions=["Established"])
        lamps = create_namespaced_resource("light.example.com", "v1", "Lamp", "lamps")
        lamp = client.create(lamps(metadata=ObjectMeta(name="l"), spec={"size": 1}))
        assert lamp["spec"] == {"size": 1}
        client.patch(lamps.Status, "l", {"status": {"ready": True}}, patch_type=PatchType.MERGE)
        assert client.get(lamps, "l").status == {"ready": True}
        with pytest.raises(ApiError, match=r"spec\.size"):
            client.patch(lamps, "l", {"spec": {"size": "x"}}, patch_type=PatchType.MERGE)
        for kind, each in client.watch(lamps):
            assert (kind, each.metadata.name) == ("ADDED", "l")
            break
        client.delete(lamps, "l")
        with pytest.raises(ApiError) as missing:
            client.get(lamps, "l")
        assert missing.value.status.code == 404


async def test_lightkube_async(light: KubeConfig) -> None:
    async with lightkube.AsyncClient(light, namespace="default") as client:
        await client.create(Namespace(metadata=ObjectMeta(name="lightkube-async")))
        async with asyncio.timeout(60):
            while not [each async for each in client.list(ServiceAccount, namespace="lightkube-async")]:
                await asyncio.sleep(0.02)
        made = await client.create(
            Pod.from_dict(
                {
                    "metadata": {"name": "p", "namespace": "lightkube-async"},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                }
            )
        )
        assert made.spec is not None
        assert made.spec.serviceAccountName == "default"
        status = {"status": {"phase": "Failed", "conditions": [{"type": "Failed", "status": "True"}]}}
        await client.patch(Pod.Status, "p", status, namespace="lightkube-async")
        with pytest.raises(ConditionError):
            await client.wait(
                Pod,
                "p",
                for_conditions=["Ready"],
                raise_for_conditions=["Failed"],
                namespace="lightkube-async",
            )
        assert [each async for each in client.list(Deployment, namespace="lightkube-async")] == []
