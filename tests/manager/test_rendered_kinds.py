"""`Operator.render`: templates as the controller of a kind, on the embedded control plane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from kubewright import Client, Condition, CustomResource, Operator, Status, resource
from kubewright.api import ObjectMeta, RawObject
from kubewright.api.apps.v1 import Deployment, DeploymentStatus
from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import ConfigMap, Event, Namespace, Service
from kubewright.api.declaring.declarations import Rbac
from kubewright.api.markers import ListMap
from kubewright.api.rbac.v1 import ClusterRole
from kubewright.client import condition, exists, field_is, is_deleted, merge_patch
from kubewright.client.applyset_inventory import KINDS_ANNOTATION, NAMESPACES_ANNOTATION
from kubewright.testing.operators import run_operator
from kubewright.testing.permissions import PermissionRecorder

TEMPLATES = {
    "values.yaml": "replicas: 1\nimage: nginx\n",
    "deployment.yaml.j2": """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ name }}
spec:
  replicas: {{ spec.replicas }}
  selector:
    matchLabels: {app: {{ name }}}
  template:
    metadata:
      labels: {app: {{ name }}}
    spec:
      containers:
        - name: web
          image: {{ spec.image | quote }}
""",
    "config.yaml.j2": """\
{% if spec.config is defined %}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ name }}}
data: {{ spec.config | to_json }}
{% endif %}
""",
    "service.yaml.j2": """\
{% if spec.port is defined %}
apiVersion: v1
kind: Service
metadata: {name: {{ name }}}
spec:
  selector: {app: {{ name }}}
  ports: [{port: {{ spec.port }}}]
{% endif %}
""",
    "others.yaml.j2": """\
{% for other in spec.others | default([]) %}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ name }}, namespace: {{ other }}}
data: {owner: {{ namespace }}}
{% endfor %}
{% if spec.role | default(false) %}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ namespace }}-{{ name }}}
rules: []
{% endif %}
""",
}


class ShopStatus(Status):
    observed_generation: int | None = None
    conditions: Annotated[list[Condition], ListMap("type")] | None = None


@resource(group="store.example.com", version="v1")
class Shop(CustomResource[RawObject, ShopStatus]):
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TEMPLATES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def operator(folder: Path) -> Operator:
    operator = Operator("shop")
    operator.render(Shop, folder)
    return operator


def shop(name: str = "main", **spec: Any) -> Shop:
    return Shop(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


async def change(client: Client, **spec: Any) -> None:
    await client.patch(Shop, "main", merge_patch({"spec": spec}))


def reports(reason: str, message: str = "") -> Callable[[Any], bool]:
    def matches(found: Shop | None) -> bool:
        ready = get_condition(found.status, "Ready") if found is not None else None
        return ready is not None and ready.reason == reason and message in (ready.message or "")

    return matches


async def wait(client: Client, until: Any, kind: Any = Shop, name: str = "main", **where: Any) -> Any:
    return await client.wait(kind, name, until=until, timeout=60, **where)


async def make_ready(client: Client) -> None:
    deployment = await wait(client, exists, Deployment)
    deployment.status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=deployment.spec.replicas,
        updated_replicas=deployment.spec.replicas,
        ready_replicas=deployment.spec.replicas,
        available_replicas=deployment.spec.replicas,
    )
    await client.update_status(deployment)


async def test_objects_follow_the_spec(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        created = await client.create(shop(config={"a": "1"}, port=80))
        deployment = await wait(client, exists, Deployment)
        assert (deployment.spec.replicas, deployment.spec.template.spec.containers[0].image) == (1, "nginx")
        [reference] = deployment.metadata.owner_references
        assert (reference.uid, reference.controller) == (created.metadata.uid, True)
        await wait(client, field_is(".data.a", "1"), ConfigMap)
        await change(client, replicas=3, config={"a": "2"})
        await wait(client, field_is(".spec.replicas", 3), Deployment)
        await wait(client, field_is(".data.a", "2"), ConfigMap)
        await change(client, config=None, port=None)
        await wait(client, is_deleted, ConfigMap)
        await wait(client, is_deleted, Service)
        found = await wait(
            client, lambda each: "ConfigMap" not in each.metadata.annotations[KINDS_ANNOTATION]
        )
        assert found.metadata.annotations[KINDS_ANNOTATION] == "Deployment.apps"


async def test_changes_by_others_are_reverted(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(shop(config={"a": "1"}))
        await wait(client, exists, Deployment)
        await client.patch(Deployment, "main", merge_patch({"spec": {"replicas": 7}}))
        await wait(client, field_is(".spec.replicas", 1), Deployment)
        await wait(client, exists, ConfigMap)
        await client.patch(ConfigMap, "main", merge_patch({"data": {"a": "x"}}))
        await wait(client, field_is(".data.a", "1"), ConfigMap)
        deleted = await client.get(Deployment, "main")
        await client.delete(deleted)
        await wait(
            client, lambda each: each is not None and each.metadata.uid != deleted.metadata.uid, Deployment
        )


async def test_ready_when_the_objects_are(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(shop(config={}))
        found = await wait(client, reports("ObjectsNotReady", "Deployment main: the Deployment has not been"))
        assert (condition("Ready")(found), condition("Progressing")(found)) == (False, True)
        await make_ready(client)
        found = await wait(client, condition("Ready"))
        assert reports("ObjectsReady", "2 objects ready")(found)
        assert found.status.observed_generation == found.metadata.generation
        await change(client, replicas=2)
        await wait(
            client, reports("ObjectsNotReady", "Deployment main: generation 2 has not been observed yet")
        )
        deployment = await client.get(Deployment, "main")
        stalled = {
            "type": "Progressing",
            "status": "False",
            "reason": "ProgressDeadlineExceeded",
            "message": "stuck",
        }
        status = merge_patch({"status": {"observedGeneration": 2, "conditions": [stalled]}})
        await client.patch(deployment, status, subresource="status")
        found = await wait(client, reports("ObjectFailed", "Deployment main: stuck"))
        assert (condition("Degraded")(found), condition("Progressing")(found)) == (True, False)
        await make_ready(client)
        await wait(client, condition("Degraded", "False"))


async def test_a_template_error_changes_nothing(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(shop(config={"a": "1"}))
        before = await wait(client, exists, Deployment)
        await wait(client, exists, ConfigMap)
        await change(client, others=5, config=None)
        found = await wait(client, reports("RenderFailed", "others.yaml.j2:1: 'int' object is not iterable"))
        assert condition("Degraded")(found)
        assert found.status.observed_generation == found.metadata.generation
        kept = await client.get(Deployment, "main")
        assert kept.metadata.resource_version == before.metadata.resource_version
        await client.get(ConfigMap, "main")
        await change(client, others=[])
        await wait(client, is_deleted, ConfigMap)
        await wait(client, condition("Degraded", "False"))
    [event] = [each for each in await client.list(Event) if each.reason == "RenderFailed"]
    assert event.type == "Warning"


async def test_an_object_that_the_server_rejects(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(shop(port=80, config={}))
        await wait(client, exists, Service)
        await change(client, port=99999, config=None)
        found = await wait(client, reports("ApplyFailed", 'Service "main" is invalid'))
        assert condition("Degraded")(found)
        assert await client.get(ConfigMap, "main")  # nothing is deleted after an error
        await change(client, port=81)
        await wait(client, is_deleted, ConfigMap)


async def test_objects_outside_of_the_namespace(client: Client, operator: Operator) -> None:
    for name in ("east", "west"):
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
    async with run_operator(operator, client):
        await client.create(shop(others=["east", "west"], role=True))
        east = await wait(client, exists, ConfigMap, namespace="east")
        assert east.metadata.owner_references is None
        await wait(client, exists, ClusterRole, "default-main")
        await client.patch(ConfigMap, "main", merge_patch({"data": {"owner": "x"}}), namespace="west")
        await wait(client, field_is(".data.owner", "default"), ConfigMap, namespace="west")
        await change(client, others=["west"])
        await wait(client, is_deleted, ConfigMap, namespace="east")
        found = await wait(client, lambda each: each.metadata.annotations[NAMESPACES_ANNOTATION] == "west")
        await client.delete(found)
        await wait(client, is_deleted)
        assert await client.get_or_none(ConfigMap, "main", namespace="west") is None
        assert await client.get_or_none(ClusterRole, "default-main") is None
        assert await client.get_or_none(Deployment, "main") is None


async def test_deletion_waits_for_the_objects_in_reverse_order(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(shop(config={}))
        deployment = await wait(client, exists, Deployment)
        await client.patch(deployment, merge_patch({"metadata": {"finalizers": ["example.com/hold"]}}))
        await wait(client, exists, ConfigMap)
    # The operator stops and another one continues.
    await client.delete(Shop, "main")
    async with run_operator(operator, client):
        await wait(client, reports("Deleting", "waiting for the deletion of Deployment default/main"))
        assert await client.get(ConfigMap, "main")
        await client.patch(Deployment, "main", merge_patch({"metadata": {"finalizers": None}}))
        await wait(client, is_deleted)
        assert await client.get_or_none(ConfigMap, "main") is None


async def test_objects_of_others_are_not_taken_over(client: Client, operator: Operator) -> None:
    await client.create(ConfigMap(metadata=ObjectMeta(name="main", namespace="default"), data={"a": "own"}))
    async with run_operator(operator, client):
        await client.create(shop(config={"a": "1"}))
        await wait(client, reports("ApplyFailed", "exists already and has no controlling owner"))
        assert (await client.get(ConfigMap, "main")).data == {"a": "own"}
        await client.create(shop("second", role=True))
        await wait(client, exists, ClusterRole, "default-second")


async def test_a_second_pass_writes_nothing(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(shop(config={}))
        await make_ready(client)
        before = await wait(client, condition("Ready"))
        versions = [each.metadata.resource_version for each in await client.list(ConfigMap)]
        await client.patch(Shop, "main", merge_patch({"metadata": {"annotations": {"a": "b"}}}))
        await client.create(shop("second"))
        await wait(client, reports("ObjectsNotReady"), name="second")
        after = await client.get(Shop, "main")
        assert after.status == before.status
        assert [each.metadata.resource_version for each in await client.list(ConfigMap)] == versions


async def test_permissions_follow_from_the_templates(client: Client, operator: Operator) -> None:
    await client.create(Namespace(metadata=ObjectMeta(name="east")))
    recorder = PermissionRecorder(operator)
    async with run_operator(operator, recorder.wrap(client), development=True):
        await client.create(shop(others=["east"], role=True, port=80, config={}))
        await make_ready(client)
        await wait(client, condition("Ready"))
        await client.delete(Shop, "main")
        await wait(client, is_deleted)
    missing = [each for each in recorder.missing() if "customresourcedefinitions" not in str(each)]
    assert missing == []


def test_permissions_of_rendered_roles(folder: Path) -> None:
    (folder / "role.yaml").write_text("""\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
  - {apiGroups: [batch], resources: [jobs], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: web}
""")
    operator = Operator("shop")
    operator.render(Shop, folder)
    rules = {
        (rule.groups[0], rule.resources[0], rule.verbs, rule.resource_names)
        for rule in operator.declarations()
        if isinstance(rule, Rbac)
    }
    every = ("create", "delete", "get", "list", "patch", "update", "watch")
    assert ("monitoring.coreos.com", "podmonitors", every, ()) in rules
    assert ("core", "services", every, ()) in rules  # within a condition
    assert ("batch", "jobs", ("get",), ()) in rules
    assert ("rbac.authorization.k8s.io", "clusterroles", ("bind",), ("view",)) in rules


async def test_a_reconciler_cannot_own_objects_beside_templates(client: Client, operator: Operator) -> None:
    calls = []

    @operator.timer(Shop, interval=3600)
    async def tick(shop: Shop) -> None:
        calls.append(shop.name)

    @operator.on.create(Shop)
    async def created(shop: Shop) -> None:
        calls.append(f"created {shop.name}")

    async with run_operator(operator, client):
        await client.create(shop(config={"a": "1"}))
        await wait(client, exists, ConfigMap)
        await client.delete(ConfigMap, "main")
        await wait(client, exists, ConfigMap)
    assert calls == ["created main", "main"] or calls == ["main", "created main"]

    @operator.reconcile(Shop, owns=(Service,))
    async def reconcile(shop: Shop) -> None: ...

    with pytest.raises(TypeError, match=r"objects of Shop come from templates; .* remove owns="):
        operator.manager(client)


async def test_objects_outside_of_the_watched_namespaces(client: Client, operator: Operator) -> None:
    for name in ("east", "west"):
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
    async with run_operator(operator, client, namespaces=("default",)):
        await client.create(shop(others=["east", "west"], replicas=0))
        await wait(client, exists, ConfigMap, namespace="west")
        await make_ready(client)
        await wait(client, reports("ObjectsReady", "3 objects ready"))
        await change(client, others=["west"])
        await wait(client, is_deleted, ConfigMap, namespace="east")
        await client.delete(Shop, "main")
        await wait(client, is_deleted)
        assert await client.get_or_none(ConfigMap, "main", namespace="west") is None


async def test_a_definition_and_its_objects(client: Client, folder: Path) -> None:
    (folder / "a_flavor.yaml.j2").write_text("""\
apiVersion: example.com/v1
kind: Flavor
metadata: {name: {{ name }}}
spec: {sweet: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: flavors.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Flavor, plural: flavors, singular: flavor, listKind: FlavorList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
""")
    operator = Operator("shop")
    operator.render(Shop, folder)
    async with run_operator(operator, client):
        await client.create(shop())
        await make_ready(client)
        await wait(client, reports("ObjectsReady", "3 objects ready"))
        found = await client.get("flavors.example.com", "main")
        await client.patch(found, merge_patch({"spec": {"sweet": False}}))
        await wait(client, field_is(".spec.sweet", True), "flavors.example.com")
        await client.delete(Shop, "main")
        await wait(client, is_deleted)
        assert await client.get_or_none("customresourcedefinitions", "flavors.example.com") is None
