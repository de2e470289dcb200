"""Mutating admission policies."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.api.errors import APIError

CONFIG_MAPS = {
    "resourceRules": [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }
    ]
}
PODS = {
    "resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    ]
}


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def mutating(
    cluster: Any, name: str, *mutations: Any, constraints: Any = CONFIG_MAPS, **spec: Any
) -> None:
    base = {"reinvocationPolicy": "Never", "matchConstraints": constraints, "mutations": list(mutations)}
    await cluster.policy("Mutating", name, {**base, **spec}, {})


async def test_mutations_see_the_results_of_earlier_ones(cluster: Any) -> None:
    await mutating(
        cluster,
        "p",
        apply("Object{metadata: Object.metadata{labels: {'applied': 'yes'}}}"),
        patch(
            "[JSONPatch{op: 'add', path: '/metadata/annotations', value: "
            "{'was': object.metadata.labels['applied']}},"
            " JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]"
        ),
    )
    made = await cluster.config_map("a", labels={"own": "1"})
    assert made["metadata"]["labels"] == {"own": "1", "applied": "yes", "a/b": "c"}
    assert made["metadata"]["annotations"] == {"was": "yes"}


async def test_lists_merge_by_their_keys(cluster: Any) -> None:
    await mutating(
        cluster,
        "p",
        apply(
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', "
            "env: [Object.spec.containers.env{name: 'ADDED', value: 'yes'}]}]}}"
        ),
        constraints=PODS,
    )
    spec = {"containers": [{"name": "b", "image": "i"}, {"name": "c", "image": "i"}]}
    made = await cluster.pod("a", spec=spec)
    containers = {each["name"]: each for each in made["spec"]["containers"]}
    assert containers["c"]["image"] == "i"
    assert containers["c"]["env"] == [{"name": "ADDED", "value": "yes"}]
    assert "env" not in containers["b"]


async def test_atomic_values_cannot_be_configured(cluster: Any) -> None:
    await mutating(
        cluster,
        "p",
        apply("Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}"),
        constraints=PODS,
    )
    with pytest.raises(APIError) as excinfo:
        await cluster.pod("a")
    assert excinfo.value.message == (
        "policy 'p' with binding 'p' denied request: error applying patch: invalid ApplyConfiguration: "
        "may not mutate atomic arrays, maps or structs: .spec.nodeSelector"
    )
    assert excinfo.value.status_reason == "Invalid"


async def test_a_failed_test_leaves_the_object(cluster: Any) -> None:
    await mutating(
        cluster,
        "p",
        patch(
            "[JSONPatch{op: 'test', path: '/metadata/name', value: 'other'},"
            " JSONPatch{op: 'add', path: '/data', value: {'k': 'v'}}]"
        ),
    )
    assert "data" not in await cluster.config_map("a")
    assert (await cluster.config_map("other"))["data"] == {"k": "v"}


async def test_errors_follow_the_failure_policy(cluster: Any) -> None:
    bad = patch("[JSONPatch{op: 'remove', path: '/data/missing'}]")
    await mutating(cluster, "ignored", bad, failurePolicy="Ignore")
    await cluster.config_map("a")
    await mutating(cluster, "p", bad)
    with pytest.raises(APIError, match="policy 'p' with binding 'p' denied request: JSON Patch: "):
        await cluster.config_map("b")


async def test_conditions_and_variables(cluster: Any) -> None:
    await mutating(
        cluster,
        "p",
        apply("Object{metadata: Object.metadata{labels: {'size': variables.size}}}"),
        variables=[{"name": "size", "expression": "string(object.?data.orValue({}).size())"}],
        matchConditions=[{"name": "c", "expression": "object.metadata.name != 'skip'"}],
    )
    assert (await cluster.config_map("a", {"k": "v"}))["metadata"]["labels"] == {"size": "1"}
    assert "labels" not in (await cluster.config_map("skip"))["metadata"]


async def test_reinvocation_policy(cluster: Any) -> None:
    count = apply(
        "Object{metadata: Object.metadata{annotations: "
        "{'seen': string(object.?metadata.labels.orValue({}).size())}}}"
    )
    await mutating(cluster, "a-again", count, reinvocationPolicy="IfNeeded")
    await mutating(cluster, "b-later", apply("Object{metadata: Object.metadata{labels: {'later': 'yes'}}}"))
    made = await cluster.config_map("x")
    assert made["metadata"]["labels"] == {"later": "yes"}
    assert made["metadata"]["annotations"] == {"seen": "1"}


async def test_types_of_object_literals(cluster: Any) -> None:
    await mutating(cluster, "p", apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}"))
    with pytest.raises(APIError, match=r'type mismatch: unexpected type name "Object.spec", expected'):
        await cluster.config_map("a")


async def test_patches_cannot_add_unknown_fields(cluster: Any) -> None:
    await mutating(cluster, "p", patch("[JSONPatch{op: 'add', path: '/foo', value: '1'}]"))
    with pytest.raises(APIError, match='strict decoding error: unknown field "foo"'):
        await cluster.config_map("a")


async def test_failed_mutations_are_skipped_with_failure_policy_ignore(cluster: Any) -> None:
    await mutating(
        cluster,
        "p",
        patch("[JSONPatch{op: 'remove', path: '/nosuch'}]"),
        apply("Object{metadata: Object.metadata{labels: {'late': 'yes'}}}"),
        failurePolicy="Ignore",
    )
    assert (await cluster.config_map("a"))["metadata"]["labels"] == {"late": "yes"}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "[JSONPatch{op: 'add', path: '/immutable', value: 'yes'}]",
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            "[JSONPatch{op: 'replace', path: '', value: {'kind': 'X'}}]",
            'no kind "X" is registered for version "v1"',
        ),
        ("[JSONPatch{path: '/a'}]", "JSON Patch: Unexpected kind: $"),
        ("[JSONPatch{op: 'add', value: 'y'}]", 'add operation does not apply: doc is missing path: ""'),
    ],
)
async def test_patches_with_invalid_results(cluster: Any, expression: str, message: str) -> None:
    await mutating(cluster, "p", patch(expression))
    with pytest.raises(APIError, match=message):
        await cluster.config_map("a", {"a": "b"})
