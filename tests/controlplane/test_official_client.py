"""The `kubernetes` package against `kubewright up`: typed API, watch, informer, dynamic client, utilities."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import NotFoundError
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer


@pytest.fixture(scope="module")
def api(up: Any) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(up.kubeconfig)) as made:
        yield made


@pytest.fixture
def namespace(api: client.ApiClient, request: pytest.FixtureRequest) -> str:
    name = "official-" + request.node.name.removeprefix("test_").replace("_", "-")[:50]
    client.CoreV1Api(api).create_namespace({"metadata": {"name": name}})
    return name


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.01)


def crd(plural: str, kind: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 3},
                    "list": {"type": "array", "items": {"type": "string"}},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.official.example.com"},
        "spec": {
            "group": "official.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }


def test_typed_objects(api: client.ApiClient, namespace: str) -> None:
    apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
    container = client.V1Container(
        name="web",
        image="nginx",
        ports=[client.V1ContainerPort(container_port=80)],
        resources=client.V1ResourceRequirements(requests={"cpu": "100m"}),
    )
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template
    )
    made = apps.create_namespaced_deployment(
        namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    assert made.metadata.creation_timestamp.tzinfo is not None
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    made.spec.replicas = 4
    replaced = apps.replace_namespaced_deployment("web", namespace, made)
    assert (replaced.spec.replicas, replaced.metadata.generation) == (4, 2)
    with pytest.raises(ApiException) as conflict:
        apps.replace_namespaced_deployment("web", namespace, made)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    scale = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 7}})
    assert scale.spec.replicas == 7
    status = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
    patched = apps.patch_namespaced_deployment_status("web", namespace, status)
    assert patched.status.conditions[0].type == "Available"
    for i in range(5):
        core.create_namespaced_config_map(
            namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"c{i}", labels={"n": str(i)}))
        )
    page = core.list_namespaced_config_map(namespace, limit=2, label_selector="n")
    names = [item.metadata.name for item in page.items]
    assert page.metadata.remaining_item_count is None, "unknown when a selector is given"
    while page.metadata._continue:
        page = core.list_namespaced_config_map(
            namespace, limit=2, label_selector="n", _continue=page.metadata._continue
        )
        names += [item.metadata.name for item in page.items]
    assert names == [f"c{i}" for i in range(5)]
    core.delete_collection_namespaced_config_map(namespace, label_selector="n in (0,1)")
    left = core.list_namespaced_config_map(namespace, label_selector="n")
    assert [item.metadata.name for item in left.items] == ["c2", "c3", "c4"]
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("c0", namespace)
    assert missing.value.status == 404
    secret = core.create_namespaced_secret(
        namespace, client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"a": "b"})
    )
    assert secret.data == {"a": "Yg=="}
    assert client.VersionApi(api).get_code().minor == "37"
    allowed = client.AuthorizationV1Api(api).create_self_subject_access_review(
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    )
    assert allowed.status.allowed


def test_watch(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    start = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "one"}})
    core.patch_namespaced_config_map("one", namespace, {"data": {"a": "1"}})
    core.delete_namespaced_config_map("one", namespace)
    watching = watch.Watch()
    seen = []
    for event in watching.stream(
        core.list_namespaced_config_map, namespace, resource_version=start, timeout_seconds=60
    ):
        if event["object"].metadata.name == "one":
            seen.append((event["type"], event["object"].data))
        if event["type"] == "DELETED":
            watching.stop()
    assert seen == [("ADDED", None), ("MODIFIED", {"a": "1"}), ("DELETED", {"a": "1"})]


def test_informer(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "before", "labels": {"x": "y"}}})
    informer = SharedInformer(core.list_namespaced_config_map, namespace=namespace, label_selector="x=y")
    seen: list[tuple[str, str]] = []
    ended = threading.Event()
    for kind in (ADDED, MODIFIED, DELETED):
        informer.add_event_handler(kind, lambda obj, kind=kind: seen.append((kind, obj.metadata.name)))
    informer.add_event_handler(DELETED, lambda obj: ended.set())
    informer.start()
    eventually(lambda: len(informer.cache.list()) == 1)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "after", "labels": {"x": "y"}}})
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "hidden"}})
    eventually(lambda: len(informer.cache.list()) == 2)
    core.patch_namespaced_config_map("after", namespace, {"data": {"a": "1"}})
    core.patch_namespaced_config_map("before", namespace, {"metadata": {"labels": {"x": None}}})
    assert ended.wait(60)
    assert seen == [(ADDED, "before"), (ADDED, "after"), (MODIFIED, "after"), (DELETED, "before")]
    assert [obj.data for obj in informer.cache.list()] == [{"a": "1"}]
    # Further events wake the watching thread so that it can end.
    stopping = threading.Thread(target=informer.stop)
    stopping.start()
    for number in itertools.count(2):
        stopping.join(0.2)
        if not stopping.is_alive():
            break
        core.patch_namespaced_config_map("after", namespace, {"data": {"a": str(number)}})


def test_dynamic_client(api: client.ApiClient, namespace: str) -> None:
    dyn = dynamic.DynamicClient(api)
    definitions = dyn.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
    definitions.create(body=crd("widgets", "Widget"))
    widgets = dyn.resources.get(api_version="official.example.com/v1", kind="Widget")
    body = {"apiVersion": "official.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    made = widgets.create(body=body, namespace=namespace)
    assert made.spec.size == 3
    merged = widgets.patch(
        body={"metadata": {"name": "w"}, "spec": {"size": 5}},
        namespace=namespace,
        content_type="application/merge-patch+json",
    )
    assert merged.spec.size == 5
    applied = widgets.server_side_apply(
        body={**body, "spec": {"size": 6, "list": ["a"]}},
        namespace=namespace,
        field_manager="tests",
        force_conflicts=True,
    )
    assert applied.spec.list == ["a"]
    status = {
        "apiVersion": "official.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "status": {"ok": True},
    }
    after = widgets.status.patch(
        body=status, name="w", namespace=namespace, content_type="application/merge-patch+json"
    )
    assert after.status.ok
    assert after.metadata.generation == applied.metadata.generation
    for event in widgets.watch(namespace=namespace, timeout=60):
        assert event["type"] == "ADDED"
        assert event["object"].spec.size == 6
        break
    assert [item.metadata.name for item in widgets.get(namespace=namespace).items] == ["w"]
    widgets.delete(name="w", namespace=namespace)
    with pytest.raises(NotFoundError):
        widgets.get(name="w", namespace=namespace)
    assert dyn.resources.search(kind="Deployment")[0].group == "apps"
    objects = client.CustomObjectsApi(api)
    created = objects.create_namespaced_custom_object(
        "official.example.com", "v1", namespace, "widgets", {**body, "spec": {"size": 1}}
    )
    assert created["metadata"]["namespace"] == namespace


def test_create_from_dict_and_exec(api: client.ApiClient, namespace: str) -> None:
    (made,) = utils.create_from_dict(
        api,
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "tick"},
            "spec": {
                "schedule": "@hourly",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
                        }
                    }
                },
            },
        },
        namespace=namespace,
    )
    assert made.spec.concurrency_policy == "Allow"
    core = client.CoreV1Api(api)
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "robot"}})
    request = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600)
    )
    token = core.create_namespaced_service_account_token("robot", namespace, request).status.token
    review = client.AuthenticationV1Api(api).create_token_review({"spec": {"token": token}})
    assert review.status.user.username == f"system:serviceaccount:{namespace}:robot"
