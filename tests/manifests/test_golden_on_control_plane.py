"""The committed definitions on a control plane: each is established and enforced.

Every definition of `examples/types/golden` is created on a control plane in process, or on the real server of
`KUBEBUILDER_ASSETS`. For each kind one object is accepted, and changes to it are rejected at the field that
their marker stands on.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api import Conflict, GroupVersionKind, Invalid
from kubewright.api.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Client, ClusterConfig, condition, is_deleted, merge_patch
from kubewright.testing.server import TestServer, start_test_server

GOLDEN = Path(__file__).parents[2] / "examples" / "types" / "golden"
Object = dict[str, Any]

POD = {"containers": [{"name": "main", "image": "nginx"}]}
JOB = {"spec": {"template": {"spec": {**POD, "restartPolicy": "OnFailure"}}}}
EVERYTHING: Object = {"identity": "me", "always": "said"}

VALID: dict[str, tuple[str, str, Object]] = {
    "at": (
        "cnat.programming-kubernetes.info/v1alpha1",
        "At",
        {"schedule": "2027-01-01T00:00:00Z", "command": "echo hello"},
    ),
    "autoscaler": (
        "autoscaling.example.com/v1",
        "VerticalAutoscaler",
        {
            "targetRef": {"kind": "Deployment", "name": "web"},
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [
                {"containerName": "main", "minAllowed": {"cpu": "100m", "memory": 1024}},
                {"containerName": "*"},
            ],
        },
    ),
    "cronjob": (
        "batch.tutorial.kubebuilder.io/v1",
        "CronJob",
        {"schedule": "*/5 * * * *", "jobTemplate": JOB},
    ),
    "embedded": (
        "bundle.example.com/v1",
        "Bundle",
        {
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD},
            "manifest": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "m"},
                "data": {"k": "v"},
            },
            "values": {"deep": [{"er": 1}]},
            "anything": ["goes", 1],
        },
    ),
    "everything": ("every.example.com/v1", "Everything", EVERYTHING),
    "foo": ("samplecontroller.k8s.io/v1alpha1", "Foo", {"deploymentName": "d", "replicas": 1}),
    "guestbook": ("webapp.my.domain/v1", "Guestbook", {"size": 3, "configMapName": "settings"}),
    "memcached": ("cache.example.com/v1alpha1", "Memcached", {"containerPort": 11211}),
    "multiversion": (
        "batch.tutorial.kubebuilder.io/v1",
        "CronJob",
        {"schedule": "*/5 * * * *", "jobTemplate": JOB},
    ),
    "pizza": (
        "restaurant.programming-kubernetes.info/v1beta1",
        "Pizza",
        {"toppings": [{"name": "salami"}, {"name": "tomato", "quantity": 2}]},
    ),
    "scalable": ("work.example.com/v1", "Pool", {"colour": "green"}),
    "topology": (
        "net.example.com/v1",
        "Route",
        {
            "hosts": ["a.example.com", "b.example.com"],
            "ports": [{"number": 53}, {"number": 53, "protocol": "UDP"}],
            "backend": {"group": "g", "name": "n"},
            "labels": {"a": "b"},
            "matrix": [[1, 2], [3]],
        },
    ),
    "unions": (
        "probe.example.com/v1",
        "Probe",
        {"httpGet": {"port": "http"}, "level": 2, "threshold": "5%", "note": None},
    ),
}

ABSENT = object()
"""In a change: leave the field out."""

# file, the change to the valid object by path, the field of the error, part of its message
REJECTED: list[tuple[str, dict[str, Any], str, str]] = [
    ("at", {"spec.command": ""}, "spec.command", "at least 1 chars long"),
    ("at", {"spec.schedule": "tomorrow"}, "spec.schedule", "date-time"),
    ("at", {"spec.schedule": ABSENT}, "spec.schedule", "Required value"),
    ("autoscaler", {"spec.targetRef.name": ""}, "spec.targetRef.name", "at least 1 chars long"),
    ("autoscaler", {"spec.updatePolicy": {"updateMode": "Never"}}, "spec.updatePolicy.updateMode", '"Auto"'),
    (
        "autoscaler",
        {"spec.updatePolicy": {"minReplicas": 0}},
        "spec.updatePolicy.minReplicas",
        "greater than or",
    ),
    (
        "autoscaler",
        {"spec.containers": [{"containerName": "*", "minAllowed": {"cpu": 1}}]},
        "spec.containers[0].minAllowed",
        "a lower bound needs the name of its container",
    ),
    (
        "autoscaler",
        {"spec.containers": [{"containerName": "a"}, {"containerName": "a"}]},
        "spec.containers[1]",
        "Duplicate value",
    ),
    (
        "autoscaler",
        {"spec.containers": [{"containerName": "a", "maxAllowed": {"cpu": "many"}}]},
        "spec.containers[0].maxAllowed.cpu",
        "should match",
    ),
    (
        "cronjob",
        {"spec.concurrencyPolicy": "Sometimes"},
        "spec.concurrencyPolicy",
        '"Allow", "Forbid", "Replace"',
    ),
    (
        "cronjob",
        {"spec.startingDeadlineSeconds": -1},
        "spec.startingDeadlineSeconds",
        "greater than or equal to 0",
    ),
    ("cronjob", {"spec.jobTemplate": ABSENT}, "spec.jobTemplate", "Required value"),
    (
        "cronjob",
        {"spec.jobTemplate.spec.template.spec.containers": [{"image": "x"}]},
        "spec.jobTemplate.spec.template.spec.containers[0].name",
        "Required value",
    ),
    (
        "cronjob",
        {"spec.jobTemplate.spec.template.spec.containers.0.ports": [{"containerPort": "http"}]},
        "spec.jobTemplate.spec.template.spec.containers[0].ports[0].containerPort",
        "must be of type integer",
    ),
    ("embedded", {"spec.manifest": {"kind": "ConfigMap"}}, "spec.manifest.apiVersion", "Required value"),
    ("embedded", {"spec.manifest": "text"}, "spec.manifest", "must be of type object"),
    (
        "embedded",
        {"spec.sidecars": [{"name": "a"}, {"name": "a"}]},
        "spec.sidecars[1]",
        "Duplicate value",
    ),
    ("foo", {"spec.replicas": 11}, "spec.replicas", "less than or equal to 10"),
    ("foo", {"spec.replicas": "1"}, "spec.replicas", "must be of type integer"),
    ("guestbook", {"spec.size": 0}, "spec.size", "greater than or equal to 1"),
    ("guestbook", {"spec.size": 11}, "spec.size", "less than or equal to 10"),
    ("guestbook", {"spec.configMapName": "x" * 16}, "spec.configMapName", "may not be more than 15"),
    ("guestbook", {"spec.type": "Fax"}, "spec.type", '"Phone", "Address", "Name"'),
    ("memcached", {"spec.containerPort": 65536}, "spec.containerPort", "less than or equal to 65535"),
    ("memcached", {"spec.size": -1}, "spec.size", "greater than or equal to 0"),
    ("multiversion", {"spec.schedule": {"minute": "*"}}, "spec.schedule", "must be of type string"),
    ("pizza", {"spec.toppings": [{"name": "a"}, {"name": "a"}]}, "spec.toppings[1]", "Duplicate value"),
    (
        "pizza",
        {"spec.toppings": [{"name": "a", "quantity": 0}]},
        "spec.toppings[0].quantity",
        "or equal to 1",
    ),
    ("scalable", {"spec.replicas": -1}, "spec.replicas", "greater than or equal to 0"),
    ("scalable", {"spec.colour": ABSENT}, "spec.colour", "Required value"),
    ("topology", {"spec.hosts": ["a.example.com", "a.example.com"]}, "spec.hosts[1]", "Duplicate value"),
    ("topology", {"spec.owners": ["a", "a"]}, "spec.owners[1]", "Duplicate value"),
    ("topology", {"spec.ports": [{"number": 1}, {"number": 1}]}, "spec.ports[1]", "Duplicate value"),
    ("topology", {"spec.ports.0.protocol": "SCTP"}, "spec.ports[0].protocol", '"TCP", "UDP"'),
    ("unions", {"spec.command": {"argv": ["x"]}}, "spec", "exactly one of the fields in [httpGet command]"),
    ("unions", {"spec.httpGet": ABSENT}, "spec", "exactly one of the fields in [httpGet command]"),
    (
        "unions",
        {"spec.timeout": 1, "spec.deadline": "x"},
        "spec",
        "at most one of the fields in [timeout deadline]",
    ),
    ("unions", {"spec.level": ABSENT}, "spec", "at least one of the fields in [level timeout]"),
    ("unions", {"spec.level": 3}, "spec.level", '"1", "2"'),
    ("unions", {"spec.threshold": "five"}, "spec.threshold", "should match"),
    ("unions", {"spec.httpGet.port": True}, "spec.httpGet.port", "integer,string"),
    ("unions", {"spec.note": ABSENT}, "spec.note", "Required value"),
    ("everything", {"spec.identity": ABSENT}, "spec.identity", "Required value"),
    ("everything", {"spec.always": ABSENT}, "spec.always", "Required value"),
    ("everything", {"spec.count": -1}, "spec.count", "greater than -1"),
    ("everything", {"spec.count": 1000, "spec.limit": 2000}, "spec.count", "less than 1000"),
    ("everything", {"spec.count": 11}, "spec.count", "count is above the limit"),
    ("everything", {"spec.count": 5, "spec.limit": 4}, "spec.count", "count is above the low limit"),
    ("everything", {"spec.count": 5}, "spec", "starts at zero"),
    ("everything", {"spec.count": 1.5}, "spec.count", ("must be of type int64", "be a multiple of 1")),
    ("everything", {"spec.colour": "blue"}, "spec.colour", '"red", "green"'),
    ("everything", {"spec.shape": "flat"}, "spec.shape", '"round", "square"'),
    ("everything", {"spec.flavour": "bitter"}, "spec.flavour", '"sweet", "sour"'),
    ("everything", {"spec.address": "1.2.3"}, "spec.address", "ipv4"),
    ("everything", {"spec.token": "no"}, "spec.token", "uuid"),
    ("everything", {"spec.key": "!"}, "spec.key", "byte"),
    ("everything", {"spec.since": "now"}, "spec.since", "date-time"),
    ("everything", {"spec.parts": [{"name": "A"}]}, "spec.parts[0].name", "should match '^[a-z]+$'"),
    ("everything", {"spec.parts": [{"name": "a" * 64}]}, "spec.parts[0].name", "may not be more than 63"),
    ("everything", {"spec.parts": [{"name": "a", "size": 101}]}, "spec.parts[0].size", "or equal to 100"),
    ("everything", {"spec.parts": [{"name": "a"}, {"name": "a"}]}, "spec.parts[1]", "Duplicate value"),
    ("everything", {"spec.parts": [{"name": "a"}] * 11}, "spec.parts", "must have at most 10 items"),
    ("everything", {"spec.tags": ["a", "a"]}, "spec.tags[1]", "Duplicate value"),
    ("everything", {"spec.tags": ["a" * 21]}, "spec.tags[0]", "may not be more than 20"),
    ("everything", {"spec.tags": list("abcdef")}, "spec.tags", "must have at most 5 items"),
    ("everything", {"spec.settings": dict.fromkeys("abcdefghi", "")}, "spec.settings", "at most 8"),
    (
        "everything",
        {"spec.choice": {"near": True}},
        "spec.choice",
        "exactly one of the fields in [left right]",
    ),
    ("everything", {"spec.choice": {"left": "", "near": True, "far": True}}, "spec.choice", "at most one of"),
    (
        "everything",
        {"spec.choice": {"right": ""}},
        "spec.choice",
        "at least one of the fields in [near left]",
    ),
    ("everything", {"spec.first": {"size": 2}}, "spec.first.name", "Required value"),
    ("everything", {"spec.target": {"kind": "Pod"}}, "spec.target.apiVersion", "Required value"),
    ("everything", {"spec.port": 1.5}, "spec.port", "integer,string"),
    ("everything", {"spec.percent": {}}, "spec.percent", "integer,string"),
    ("everything", {"spec.memory": "64 MB"}, "spec.memory", "should match"),
    ("everything", {"spec.timeout": 30}, "spec.timeout", "must be of type string"),
    ("everything", {"metadata.name": "x" * 53}, "<nil>", "the name is too long"),
]


def definitions(name: str) -> Iterator[Object]:
    for document in yaml.load_all((GOLDEN / f"{name}.yaml").read_text(), yaml.CSafeLoader):
        if document["kind"] == "CustomResourceDefinition":
            yield document


def made(name: str, changes: dict[str, Any] | None = None) -> Object:
    api_version, kind, spec = VALID[name]
    obj: Object = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}
    obj = copy.deepcopy(obj)
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place: Any = obj
        for step in parents:
            place = place[int(step)] if step.isdigit() else place[step]
        if value is ABSENT:
            del place[last]
        else:
            place[last] = copy.deepcopy(value)
    return obj


def kind_of(name: str) -> GroupVersionKind:
    api_version, kind, _ = VALID[name]
    return GroupVersionKind.from_api_version(api_version, kind)


@pytest.fixture
async def server(real_config: ClusterConfig | None) -> AsyncIterator[TestServer]:
    async with start_test_server(
        "real" if real_config else "in-process", real_config, controllers=False
    ) as running:
        yield running


@pytest.fixture
def client(server: TestServer) -> Client:
    return server.client(namespace="default")


async def install(client: Client, name: str) -> None:
    """Create the definitions of a file and wait until they are served; those of others with the name go."""
    for definition in definitions(name):
        await client.delete(CustomResourceDefinition, definition["metadata"]["name"], missing_ok=True)
        await client.wait(
            CustomResourceDefinition, definition["metadata"]["name"], until=is_deleted, timeout=120
        )
        await client.create(definition)
        await client.wait(
            CustomResourceDefinition, definition["metadata"]["name"], until=condition("Established")
        )
        served = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        async with asyncio.timeout(60):
            while served not in {(each.gvr.group, each.plural) for each in await client.mapper.reload()}:
                await asyncio.sleep(0.05)


def test_golden_files_are_complete() -> None:
    assert VALID.keys() == {path.stem for path in GOLDEN.glob("*.yaml")}
    assert {name for name, *_ in REJECTED} == VALID.keys()


@pytest.mark.parametrize("name", sorted(VALID))
async def test_definition_is_established_and_enforced(client: Client, name: str) -> None:
    await install(client, name)
    for _, changes, field, text in (each for each in REJECTED if each[0] == name):
        with pytest.raises(Invalid) as rejected:
            await client.create(made(name, changes))
        causes = {(cause["field"], cause["message"]) for cause in rejected.value.causes}
        texts = (text,) if isinstance(text, str) else text
        messages = [message for at, message in causes if at == field]
        assert any(each in message for each in texts for message in messages), (changes, causes)
    created = await client.create(made(name))
    assert created["metadata"]["generation"] == 1
    assert VALID[name][2].keys() <= created["spec"].keys()


async def test_defaults_are_applied(client: Client) -> None:
    await install(client, "everything")
    spec = (await client.create(made("everything")))["spec"]
    assert spec == EVERYTHING | {
        "count": 0,
        "limit": 10,
        "colour": "red",
        "steps": ["one", "two"],
        "first": {"name": "first", "size": 1},
        "port": 8080,
        "memory": "64Mi",
        "timeout": "30s",
        "servedDefault": "server",
    }
    other = made(
        "everything", {"metadata.name": "two", "spec.parts": [{"name": "a"}, {"name": "b", "size": 2}]}
    )
    parts = (await client.create(other))["spec"]["parts"]
    assert parts == [{"name": "a", "size": 1}, {"name": "b", "size": 2}]


async def test_unknown_fields_are_pruned_or_preserved(client: Client) -> None:
    await install(client, "everything")
    changes = {
        "spec.unknown": 1,
        "spec.parts": [{"name": "a", "unknown": 1}],
        "spec.open": {"known": "a", "unknown": {"deep": [1]}},
        "spec.target": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}},
        "spec.template": {"labels": {"a": "b"}, "unknown": 1},
        "spec.maybe": None,
        "spec.shape": None,
    }
    spec = (await client.create(made("everything", changes)))["spec"]
    assert "unknown" not in spec
    assert spec["parts"] == [{"name": "a", "size": 1}]
    assert spec["open"] == changes["spec.open"]
    assert spec["target"] == changes["spec.target"]
    assert spec["template"] == {}
    assert spec["maybe"] is None
    assert "shape" not in spec


async def test_immutable_fields(client: Client) -> None:
    await install(client, "everything")
    kind = kind_of("everything")
    await client.create(made("everything"))
    with pytest.raises(Invalid, match=r"spec\.identity: Invalid value.*field is immutable"):
        await client.patch(kind, "one", merge_patch({"spec": {"identity": "other"}}))
    await client.patch(kind, "one", merge_patch({"spec": {"parent": "once"}}))
    with pytest.raises(Invalid, match="field is immutable"):
        await client.patch(kind, "one", merge_patch({"spec": {"parent": "twice"}}))
    with pytest.raises(Invalid, match="field parent is immutable once set"):
        await client.patch(kind, "one", merge_patch({"spec": {"parent": None}}))
    changed = await client.patch(kind, "one", merge_patch({"spec": {"count": 4}}))
    assert changed.raw["spec"]["count"] == 4


async def test_apply_merges_lists_by_type(client: Client) -> None:
    await install(client, "everything")

    def intent(**spec: Any) -> Object:
        return {**made("everything"), "spec": spec}

    base = {**EVERYTHING, "parts": [{"name": "a", "size": 3}], "tags": ["x"], "steps": ["mine"]}
    await client.apply(intent(**base, settings={"k": "v"}), field_manager="one")
    merged = await client.apply(
        intent(parts=[{"name": "b"}, {"name": "a", "extra": "said"}], tags=["y"]), field_manager="two"
    )
    assert merged["spec"]["parts"] == [{"name": "b", "size": 1}, {"name": "a", "size": 3, "extra": "said"}]
    assert merged["spec"]["tags"] == ["x", "y"]
    with pytest.raises(Conflict, match=r"\.spec\.steps"):
        await client.apply(intent(steps=["theirs"]), field_manager="two")
    with pytest.raises(Conflict, match=r"\.spec\.settings"):
        await client.apply(intent(settings={"other": "v"}), field_manager="two")
    with pytest.raises(Conflict, match=r'\.spec\.parts\[name="a"\]\.size'):
        await client.apply(intent(parts=[{"name": "a", "size": 4}]), field_manager="two")
    left = await client.apply(intent(**EVERYTHING), field_manager="one")
    assert left["spec"]["parts"] == [{"name": "b", "size": 1}, {"name": "a", "size": 1, "extra": "said"}]
    assert left["spec"]["tags"] == ["y"]
    assert left["spec"]["steps"] == ["one", "two"]
    assert "settings" not in left["spec"]


async def test_two_keys_and_atomic_structs(client: Client) -> None:
    await install(client, "topology")

    def intent(**spec: Any) -> Object:
        return {**made("topology"), "spec": spec}

    await client.apply(intent(**VALID["topology"][2]), field_manager="one")
    merged = await client.apply(
        intent(ports=[{"number": 53, "protocol": "UDP", "name": "dns"}], labels={"c": "d"}),
        field_manager="two",
    )
    assert merged["spec"]["ports"] == [
        {"number": 53, "protocol": "TCP"},
        {"number": 53, "protocol": "UDP", "name": "dns"},
    ]
    assert merged["spec"]["labels"] == {"a": "b", "c": "d"}
    with pytest.raises(Conflict, match=r"\.spec\.backend"):
        await client.apply(intent(backend={"group": "h", "name": "n"}), field_manager="two")


@pytest.mark.parametrize(("name", "path"), [("everything", "count"), ("scalable", "replicas")])
async def test_status_and_scale(client: Client, name: str, path: str) -> None:
    await install(client, name)
    created = await client.create({**made(name), "status": {"replicas": 9}})
    assert "status" not in created
    created["status"] = {"replicas": 2, "selector": "app=web"}
    created["spec"][path] = 7
    updated = await client.update_status(created)
    assert updated["status"] == {"replicas": 2, "selector": "app=web"}
    assert updated["spec"][path] != 7
    assert updated["metadata"]["generation"] == 1
    scale = await client.scale(kind_of(name), "one", replicas=5)
    assert scale.spec.replicas == 5
    assert scale.status.replicas == 2
    assert scale.status.selector == "app=web"
    found = await client.get(kind_of(name), "one")
    assert found.raw["spec"][path] == 5
    assert found.raw["metadata"]["generation"] == 2


async def test_columns_and_selectable_fields(client: Client) -> None:
    await install(client, "everything")
    await client.create(made("everything", {"spec.parts": [{"name": "a"}]}))
    await client.create(made("everything", {"metadata.name": "two", "spec.colour": "green"}))
    table = await client.table(kind_of("everything"))
    columns = [
        (each["name"], each["type"], each["format"], each["priority"]) for each in table["columnDefinitions"]
    ]
    assert columns == [
        ("Name", "string", "name", 0),
        ("Count", "integer", "int64", 0),
        ("Colour", "string", "", 1),
        ("Part", "string", "", 0),
    ]
    assert [row["cells"] for row in table["rows"]] == [["one", 0, "red", "a"], ["two", 0, "green", None]]
    green = [
        each.raw["metadata"]["name"]
        async for each in client.list(kind_of("everything"), fields="spec.colour=green")
    ]
    assert green == ["two"]


async def test_deprecated_and_unserved_versions(server: TestServer) -> None:
    warnings: list[str] = []
    client = server.client(namespace="default", on_warning=warnings.append)
    await install(client, "everything")
    await client.create(made("everything"))
    assert "for reading, not for use" in warnings
    served = {each.gvk.version for each in await client.mapper.resources() if each.gvk.kind == "Everything"}
    assert served == {"v1"}


async def test_names_are_served_as_declared(client: Client) -> None:
    await install(client, "everything")
    (found,) = [each for each in await client.mapper.resources() if each.gvk.kind == "Everything"]
    assert (found.plural, found.singular, found.namespaced) == ("everythings", "everything", True)
    assert found.short_names == ("ev", "evy")
    assert found.categories == ("all", "example")
