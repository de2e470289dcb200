"""`Operator.compose`: graphs of objects as the controller of a kind, on the embedded control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright import Client, CustomResource, Operator, resource
from kubewright.api import ObjectMeta, RawObject
from kubewright.api.conditions import get_condition
from kubewright.api.core.v1 import ConfigMap, Event, Namespace, Secret, Service, ServicePort, ServiceSpec
from kubewright.api.declaring.declarations import Rbac
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.rbac.v1 import ClusterRole
from kubewright.client import condition, exists, field_is, is_deleted, merge_patch
from kubewright.client.applyset_inventory import KINDS_ANNOTATION, NAMESPACES_ANNOTATION
from kubewright.client.membership import PART_OF_LABEL
from kubewright.composition import CompositionStatus, Graph, GraphError, NotReady
from kubewright.composition.graph_sets import AFTER_ANNOTATION, NODE_LABEL
from kubewright.manager.operators.injection import InjectionError
from kubewright.testing.operators import run_operator
from kubewright.testing.permissions import PermissionRecorder

CERTIFICATE = GroupVersionKind("certificates.example.com", "v1", "Certificate")


class SiteStatus(CompositionStatus):
    address: str | None = None


@resource(group="composed.example.com", version="v1")
class Site(CustomResource[RawObject, SiteStatus]):
    pass


@resource(group="composed.example.com", version="v1")
class Database(CustomResource[RawObject, CompositionStatus]):
    """A kind whose status the tests write."""


def named(name: str, namespace: str | None = None) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace)


def config(name: str, namespace: str | None = None, **data: str) -> ConfigMap:
    return ConfigMap(metadata=named(name, namespace), data=data)


def compose(site: Site) -> Graph:
    """A database, a Service after it, a ConfigMap with values of both, and what the spec adds."""
    spec: dict[str, Any] = dict(site.spec or {})
    graph = Graph()
    graph.add("database", Database(metadata=named("database"), spec={"size": spec.get("size", 1)}))
    graph.add(
        "service",
        Service(metadata=named("web"), spec=ServiceSpec(ports=[ServicePort(port=80)])),
        after=("database",),
    )

    @graph.node
    def settings(service: Service, database: Database) -> ConfigMap:
        if spec.get("needs") and spec["needs"] not in (database.metadata.labels or {}):
            raise NotReady(f"the database has no label {spec['needs']}")
        return config("settings", address=service.spec.cluster_ip or "", size=str(database.spec["size"]))

    if spec.get("extra"):
        graph.add("extra", lambda settings: config(spec["extra"], address=settings.data["address"]))
        graph.add("afterExtra", lambda extra: config(f"{spec['extra']}-2"))
    graph.add("zones", [config(f"zone-{zone}", zone) for zone in spec.get("zones", ())])
    if spec.get("role"):
        graph.add("role", ClusterRole(metadata=named(f"{site.namespace}-{site.name}"), rules=[]))
    if spec.get("invalid"):
        graph.add("invalid", Service(metadata=named("invalid"), spec=ServiceSpec(ports=[])))
    if spec.get("cycle"):
        graph.add("a", config("a"), after=("b",))
        graph.add("b", config("b"), after=("a",))
    if spec.get("secret"):
        graph.add("secret", Secret(metadata=named("secret")))
    if spec.get("raises"):
        raise RuntimeError("no connection")

    @graph.status
    def report(service: Service) -> None:
        site.status.address = service.spec.cluster_ip

    return graph


@pytest.fixture
def operator() -> Operator:
    operator = Operator("sites")
    operator.compose(Site, owns=(Database, Service, ConfigMap, ClusterRole))(compose)
    return operator


def site(name: str = "main", **spec: Any) -> Site:
    return Site(metadata=named(name, "default"), spec=spec)


async def change(client: Client, **spec: Any) -> None:
    await client.patch(Site, "main", merge_patch({"spec": spec}))


def reports(reason: str, message: str = "") -> Callable[[Any], bool]:
    def matches(found: Site | None) -> bool:
        ready = get_condition(found.status, "Ready") if found is not None else None
        return ready is not None and ready.reason == reason and message in (ready.message or "")

    return matches


async def wait(client: Client, until: Any, kind: Any = Site, name: str = "main", **where: Any) -> Any:
    return await client.wait(kind, name, until=until, timeout=60, **where)


async def set_database(client: Client, status: str) -> None:
    """Set the condition Ready of the database."""
    await wait(client, exists, Database, "database")
    ready = {
        "type": "Ready",
        "status": status,
        "reason": "Test",
        "message": "starting" if status == "False" else "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    database = await client.get(Database, "database")
    observed = {"observedGeneration": database.metadata.generation, "conditions": [ready]}
    await client.patch(Database, "database", merge_patch({"status": observed}), subresource="status")


@asynccontextmanager
async def ready_site(client: Client, operator: Operator, **spec: Any) -> AsyncIterator[Site]:
    async with run_operator(operator, client):
        await client.create(site(**spec))
        await set_database(client, "True")
        yield await wait(client, condition("Ready"))


async def test_objects_are_applied_in_order(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        created = await client.create(site())
        await wait(
            client,
            reports("ObjectsNotReady", "Database database: its controller has not reported conditions yet"),
        )
        await set_database(client, "False")
        found = await wait(client, reports("ObjectsNotReady", "Database database: starting"))
        assert "service: waits for database; settings: waits for service, database" in str(
            get_condition(found.status, "Ready").message
        )
        assert (condition("Progressing")(found), condition("Degraded")(found)) == (True, False)
        assert [(each.node, each.state, each.name) for each in found.status.objects] == [
            ("database", "InProgress", "database"),
            ("service", "Waiting", None),
            ("settings", "Waiting", None),
        ]
        assert await client.get_or_none(Service, "web") is None
        await set_database(client, "True")
        ready = await wait(client, condition("Ready"))
        service = await client.get(Service, "web")
        settings = await client.get(ConfigMap, "settings")
        assert settings.data == {"address": service.spec.cluster_ip, "size": "1"}
        assert ready.status.address == service.spec.cluster_ip
        assert ready.status.observed_generation == ready.metadata.generation
        assert get_condition(ready.status, "Ready").message == "3 objects ready"
        [reference] = settings.metadata.owner_references or ()
        assert (reference.uid, reference.controller) == (created.metadata.uid, True)
        assert settings.metadata.labels[NODE_LABEL] == "settings"
        assert settings.metadata.annotations[AFTER_ANNOTATION] == "service,database"
        assert settings.metadata.labels[PART_OF_LABEL]
        kinds = "ClusterRole.rbac.authorization.k8s.io,ConfigMap,Database.composed.example.com,Service"
        assert ready.metadata.annotations[KINDS_ANNOTATION] == kinds
    events = [each.message for each in await client.list(Event) if each.reason == "Applied"]
    assert "applied Service default/web, ConfigMap default/settings" in events


async def test_changes_of_dependencies_and_of_others(client: Client, operator: Operator) -> None:
    async with ready_site(client, operator):
        await client.patch(ConfigMap, "settings", merge_patch({"data": {"size": "9"}}))
        await wait(client, field_is(".data.size", "1"), ConfigMap, "settings")
        deleted = await client.get(Service, "web")
        await client.delete(deleted)
        replaced = await wait(
            client,
            lambda each: each is not None and each.metadata.uid != deleted.metadata.uid,
            Service,
            "web",
        )
        await wait(client, field_is(".data.address", replaced.spec.cluster_ip), ConfigMap, "settings")
        # A database that is not ready stops the rollout; existing objects of later nodes stay.
        await change(client, size=2)
        await wait(client, reports("ObjectsNotReady", "generation 2 has not been observed yet"))
        assert (await client.get(ConfigMap, "settings")).data["size"] == "1"
        await set_database(client, "True")
        await wait(client, field_is(".data.size", "2"), ConfigMap, "settings")


async def test_removed_nodes_are_deleted_in_reverse_order(client: Client, operator: Operator) -> None:
    async with ready_site(client, operator, extra="more"):
        await client.patch(
            ConfigMap, "more-2", merge_patch({"metadata": {"finalizers": ["example.com/hold"]}})
        )
        await change(client, extra=None)
        await wait(client, lambda each: each.metadata.deletion_timestamp is not None, ConfigMap, "more-2")
        assert (await client.get(ConfigMap, "more")).metadata.deletion_timestamp is None
        await client.patch(ConfigMap, "more-2", merge_patch({"metadata": {"finalizers": None}}))
        await wait(client, is_deleted, ConfigMap, "more")
        await wait(client, condition("Ready"))
        # Another object of the same node.
        await change(client, extra="other")
        await wait(client, exists, ConfigMap, "other-2")
        await change(client, extra="third")
        await wait(client, is_deleted, ConfigMap, "other")
        await wait(client, is_deleted, ConfigMap, "other-2")
        assert await client.get(ConfigMap, "third-2")


async def test_nodes_wait_for_values(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(site(needs="zone"))
        await set_database(client, "True")
        await wait(client, reports("ObjectsNotReady", "settings: the database has no label zone"))
        assert await client.get_or_none(ConfigMap, "settings") is None
        await client.patch(Database, "database", merge_patch({"metadata": {"labels": {"zone": "a"}}}))
        await wait(client, condition("Ready"))


async def test_deletion_in_reverse_order(client: Client, operator: Operator) -> None:
    await client.create(Namespace(metadata=named("east")))
    async with ready_site(client, operator, zones=["east"], role=True):
        await client.patch(
            ConfigMap, "settings", merge_patch({"metadata": {"finalizers": ["example.com/hold"]}})
        )
    # Another version of the program, whose function does not work, deletes the objects as well.
    other = Operator("sites")

    @other.compose(Site, owns=(Database,))
    def broken(site: Site) -> Graph:
        raise RuntimeError

    await client.delete(Site, "main")
    async with run_operator(other, client):
        await wait(client, reports("Deleting", "waiting for the deletion of ConfigMap default/settings"))
        assert (await client.get(Service, "web")).metadata.deletion_timestamp is None
        await wait(client, is_deleted, ConfigMap, "zone-east", namespace="east")
        await wait(client, is_deleted, ClusterRole, "default-main")
        await client.patch(ConfigMap, "settings", merge_patch({"metadata": {"finalizers": None}}))
        await wait(client, is_deleted)
    for kind, name in ((Service, "web"), (Database, "database")):
        assert await client.get_or_none(kind, name) is None


async def test_objects_in_other_namespaces(client: Client, operator: Operator) -> None:
    for name in ("east", "west"):
        await client.create(Namespace(metadata=named(name)))
    async with ready_site(client, operator, zones=["east", "west"]):
        await client.delete(ConfigMap, "zone-west", namespace="west")
        await wait(client, exists, ConfigMap, "zone-west", namespace="west")
        await change(client, zones=["west"])
        await wait(client, is_deleted, ConfigMap, "zone-east", namespace="east")
        await wait(client, lambda each: each.metadata.annotations[NAMESPACES_ANNOTATION] == "west")
        expected = [None, None, None, "west"]
        await wait(client, lambda each: [item.namespace for item in each.status.objects] == expected)


async def test_an_error_of_one_node(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(site(invalid=True))
        await set_database(client, "True")
        found = await wait(client, reports("ApplyFailed", 'invalid: Service "invalid" is invalid'))
        assert condition("Degraded")(found)
        await wait(client, exists, ConfigMap, "settings")  # does not depend on it
        await change(client, invalid=False)
        await wait(client, condition("Ready"))


async def test_invalid_graphs(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(site(cycle=True))
        await wait(client, reports("InvalidGraph", "the graph has a cycle: a -> b -> a"))
        assert await client.get_or_none(Database, "database") is None
        await change(client, cycle=False, secret=True)
        await set_database(client, "True")
        message = "node 'secret' is of the kind Secret (v1); add it to owns=(...)"
        await wait(client, reports("ApplyFailed", message))
        await change(client, secret=False, raises=True)
        await wait(client, reports("ComposeFailed", "RuntimeError: no connection"))
        await change(client, raises=False)
        await wait(client, condition("Ready"))
    [event] = [each for each in await client.list(Event) if each.reason == "InvalidGraph"]
    assert event.type == "Warning"


async def test_objects_of_others_are_not_taken_over(client: Client, operator: Operator) -> None:
    await client.create(config("settings", "default", own="1"))
    async with run_operator(operator, client):
        await client.create(site())
        await set_database(client, "True")
        await wait(client, reports("ApplyFailed", "exists already and has no controlling owner"))
        assert (await client.get(ConfigMap, "settings")).data == {"own": "1"}


async def test_nothing_is_written_if_nothing_changed(client: Client, operator: Operator) -> None:
    recorder = PermissionRecorder(operator)
    async with run_operator(operator, recorder.wrap(client), development=True):
        await client.create(site(extra="more"))
        await set_database(client, "True")
        before = await wait(client, condition("Ready"))
        kinds: tuple[Any, ...] = (Database, Service, ConfigMap)
        versions = [each.metadata.resource_version for kind in kinds for each in await client.list(kind)]
        await client.patch(Site, "main", merge_patch({"metadata": {"annotations": {"a": "b"}}}))
        await client.create(site("second", cycle=True))
        await wait(client, reports("InvalidGraph"), name="second")
        after = await client.get(Site, "main")
        assert after.status == before.status
        assert versions == [
            each.metadata.resource_version for kind in kinds for each in await client.list(kind)
        ]
    missing = [each for each in recorder.missing() if "customresourcedefinitions" not in str(each)]
    assert missing == []


async def test_a_restarted_operator_continues(client: Client, operator: Operator) -> None:
    async with run_operator(operator, client):
        await client.create(site(extra="more"))
        await wait(client, exists, Database, "database")
    await set_database(client, "True")
    async with run_operator(operator, client):
        await wait(client, condition("Ready"))
        before = await client.get(ConfigMap, "more")
    await change(client, extra=None)
    async with run_operator(operator, client):
        await wait(client, is_deleted, ConfigMap, "more")
    assert before.metadata.labels[NODE_LABEL] == "extra"


def test_permissions_follow_from_owned_kinds() -> None:
    operator = Operator("sites")

    @operator.compose(Site, owns=(Service, ClusterRole, CERTIFICATE))
    def compose(site: Site) -> Graph:
        return Graph()

    rules = {
        (rule.groups[0], rule.resources[0]): rule.verbs
        for rule in operator.declarations()
        if isinstance(rule, Rbac)
    }
    every = ("create", "delete", "get", "list", "patch", "update", "watch")
    assert rules["core", "services"] == every
    assert rules["rbac.authorization.k8s.io", "clusterroles"] == every
    assert rules["certificates.example.com", "certificates"] == every
    assert ("composed.example.com", "sites/status") in rules


def test_declarations_are_checked(client: Client) -> None:
    operator = Operator("sites")
    with pytest.raises(
        InjectionError, match="parameter 'graph' has annotation Graph; a composition can have"
    ):

        @operator.compose(Site)
        def compose(graph: Graph) -> Graph:
            return graph

    with pytest.raises(TypeError, match="str is not a kind"):
        operator.compose(Site, owns=(str,))  # type: ignore[arg-type]
    operator.compose(Site)(lambda: Graph())

    @operator.reconcile(Site, owns=(Service,))
    async def reconcile(site: Site) -> None: ...

    with pytest.raises(TypeError, match="objects of Site come from a composition"):
        operator.manager(client)


async def test_a_function_that_returns_no_graph(client: Client) -> None:
    operator = Operator("sites")

    @operator.compose(Site)
    def compose(site: Site) -> list[ConfigMap]:
        return []

    async with run_operator(operator, client):
        await client.create(site())
        await wait(client, reports("InvalidGraph", "returned list; a composition returns a Graph"))


def test_graph_errors_are_value_errors() -> None:
    assert issubclass(GraphError, ValueError)


async def test_external_objects_are_read_and_watched(client: Client) -> None:
    operator = Operator("sites")

    @operator.compose(Site, owns=(ConfigMap,), reads=(Secret, Database))
    def compose(site: Site) -> Graph:
        graph = Graph()
        graph.read("key", Secret, "key", namespace="kube-system")
        graph.read("database", Database, "database")
        if site.spec.get("service"):
            graph.read("service", Service, "web")
        graph.add(
            "copy",
            lambda key, database: config("copy", key=key.data["a"].decode(), size=database.spec["size"]),
        )
        return graph

    rules = {rule.resources[0]: rule.verbs for rule in operator.declarations() if isinstance(rule, Rbac)}
    assert rules["secrets"] == ("get", "list", "watch")
    secret = Secret(metadata=named("key", "kube-system"), data={"a": b"1"})
    async with run_operator(operator, client):
        await client.create(site())
        await wait(client, reports("ObjectsNotReady", "copy: waits for key, database"))
        await client.create(secret)
        await client.create(Database(metadata=named("database", "default"), spec={"size": "1"}))
        await wait(client, reports("ObjectsNotReady", "Database database: its controller has not reported"))
        await set_database(client, "True")
        await wait(client, field_is(".data.key", "1"), ConfigMap, "copy")
        await client.patch(Secret, "key", merge_patch({"stringData": {"a": "2"}}), namespace="kube-system")
        await wait(client, field_is(".data.key", "2"), ConfigMap, "copy")
        await change(client, service=True)
        await wait(
            client, reports("ApplyFailed", "node 'service' reads the kind Service (v1); add it to reads=")
        )
        await client.delete(Site, "main")
        await wait(client, is_deleted)
    assert await client.get_or_none(ConfigMap, "copy") is None
    assert await client.get(Secret, "key", namespace="kube-system")


@resource(group="composed.example.com", version="v1")
class Platform(CustomResource[RawObject, CompositionStatus]):
    """A composition of compositions."""


async def test_compositions_of_compositions(client: Client, operator: Operator) -> None:
    @operator.compose(Platform, owns=(Site, ConfigMap))
    def compose_platform(platform: Platform) -> Graph:
        graph = Graph()
        graph.add("site", Site(metadata=named("main"), spec={"size": platform.spec["size"]}))
        graph.add("summary", lambda site: config("summary", address=site.status.address))
        return graph

    async with run_operator(operator, client):
        await client.create(Platform(metadata=named("all", "default"), spec={"size": 1}))
        found = await wait(client, reports("ObjectsNotReady", "summary: waits for site"), Platform, "all")
        assert found.status.objects[1].state == "Waiting"
        await set_database(client, "True")
        await wait(client, condition("Ready"), Platform, "all")
        address = (await client.get(Site, "main")).status.address
        assert (await client.get(ConfigMap, "summary")).data == {"address": address}
        await client.patch(Platform, "all", merge_patch({"spec": {"size": 2}}))
        await wait(client, field_is(".spec.size", 2), Database, "database")
        await wait(client, condition("Ready", "False"), Platform, "all")
        await set_database(client, "True")
        await wait(client, condition("Ready"), Platform, "all")
        await client.delete(Platform, "all")
        await wait(client, is_deleted, Platform, "all")
    for kind, name in ((Site, "main"), (Database, "database"), (ConfigMap, "settings")):
        assert await client.get_or_none(kind, name) is None


async def test_an_operator_of_one_namespace(client: Client) -> None:
    operator = Operator("sites", namespaces=["default"])
    operator.compose(Site, owns=(Database, Service, ConfigMap))(compose)
    rules = [rule for rule in operator.declarations() if isinstance(rule, Rbac)]
    assert {rule.namespace for rule in rules if "services" in rule.resources} == {"default"}
    async with ready_site(client, operator, extra="more"):
        await client.patch(ConfigMap, "more", merge_patch({"data": {"address": "x"}}))
        await change(client, extra=None)
        await wait(client, is_deleted, ConfigMap, "more")
        await client.delete(Site, "main")
        await wait(client, is_deleted)
