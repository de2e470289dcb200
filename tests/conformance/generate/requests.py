"""Reads, writes, patches, apply, watches and deletes of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.conformance.cases import Case
from tests.conformance.generate.builtin_kinds import BuiltinKind, JSONObject, merge

Steps = list[JSONObject]


def request_cases(kind: BuiltinKind) -> Iterator[Case]:
    """Cases of one kind, one per category."""
    if kind.review:
        return
    for (category, group), build in _BUILDERS.items():
        if group in kind.without or (kind.lifecycle is not None and group not in kind.lifecycle):
            continue
        setup, steps = build(kind)
        document: JSONObject = {"about": f"{kind.label}: {group}."}
        if setup:
            document["setup"] = setup
        yield Case(f"{category}/kind-{kind.label}", {**document, "steps": steps})


def _create(kind: BuiltinKind, **metadata: object) -> JSONObject:
    return {"do": f"POST {kind.collection}", "body": merge(kind.minimal, {"metadata": metadata})}


def _delete(kind: BuiltinKind) -> str:
    query = f"?{kind.delete_query}" if kind.delete_query else ""
    return f"DELETE {kind.object_path}{query}"


def _crud(kind: BuiltinKind) -> tuple[Steps, Steps]:
    labelled = merge(kind.minimal, {"metadata": {"labels": {"a": "b"}}})
    steps = [
        kind.step(f"GET {kind.object_path}", name="missing"),
        kind.step(f"POST {kind.collection}", body=kind.minimal),
        kind.step(f"POST {kind.collection}", name="again", body=kind.minimal),
        kind.step(f"GET {kind.object_path}"),
        kind.step(f"PUT {kind.object_path}", name="without a resourceVersion", body=labelled),
        kind.step(
            f"PUT {kind.object_path}",
            name="with an old resourceVersion",
            body=merge(labelled, {"metadata": {"resourceVersion": "1"}}),
        ),
        kind.step(
            f"PUT {kind.object_path}",
            name="other name",
            body=merge(labelled, {"metadata": {"name": "other"}}),
        ),
        kind.step(f"PUT {kind.object_path}", name="other kind", body=merge(labelled, {"kind": "Other"})),
        kind.step(
            f"PUT {kind.object_path}", name="other uid", body=merge(labelled, {"metadata": {"uid": "u"}})
        ),
        kind.step(
            f"PUT {kind.collection}/none-$(id)",
            name="missing object",
            body=merge(labelled, {"metadata": {"name": "none-$(id)"}}),
        ),
        kind.step(f"POST {kind.collection}", name="other kind", body=merge(kind.minimal, {"kind": "Other"})),
        kind.step(
            f"POST {kind.collection}",
            name="other version",
            body=merge(kind.minimal, {"apiVersion": "example.com/v1"}),
        ),
        kind.step(f"POST {kind.collection}", name="no kind", body=merge(kind.minimal, {"kind": None})),
        kind.step(f"POST {kind.collection}", name="no JSON", raw="{"),
        kind.step(f"PATCH {kind.object_path}", name="no content type", type="text/plain", raw="{}"),
    ]
    if kind.is_namespaced:
        other = merge(kind.minimal, {"metadata": {"namespace": "other"}})
        steps += [
            kind.step(f"POST {kind.collection}", name="other namespace", body=other),
            kind.step(f"POST {kind.path}/namespaces/none-$(id)/{kind.resource}", body=kind.minimal),
            kind.step(f"POST {kind.all_objects}", name="no namespace", body=kind.minimal),
        ]
    return [], steps


def _list(kind: BuiltinKind) -> tuple[Steps, Steps]:
    setup = [_create(kind, labels={"conf": "$(id)"})]
    base = f"{kind.collection}?labelSelector=conf=$(id)"
    name = kind.object_name
    steps = [
        kind.step(f"GET {base}", pick="items[*].metadata.name"),
        kind.step(
            f"GET {base}", name="whole", mask=[*kind.mask, *(f"items[0].{path}" for path in kind.mask)]
        ),
        kind.step(f"GET {kind.all_objects}?labelSelector=conf=$(id)", pick="items[*].metadata.name"),
        kind.step(f"GET {base}&fieldSelector=metadata.name={name}", pick="items[*].metadata.name"),
        kind.step(f"GET {base}&fieldSelector=metadata.name!={name}", pick="items[*].metadata.name"),
        kind.step(f"GET {base}&fieldSelector=spec.nosuchfield=x"),
        kind.step(f"GET {base}&fieldSelector=metadata.namespace=x", pick="items[*].metadata.name"),
        kind.step(f"GET {base}&limit=1&resourceVersion=0", pick="items[*].metadata.name"),
        kind.step(f"GET {base}", accept="table", ages=kind.ages),
        kind.step(f"GET {base}&includeObject=Object", accept="table", pick=["rows[*].object.kind"]),
        kind.step(f"GET {base}", accept="partial-list"),
        *(
            kind.step(f"GET {base}&fieldSelector={each}", pick="items[*].metadata.name")
            for each in kind.selectors
        ),
        *(
            kind.step(
                f"GET {base}&fieldSelector={each.partition('=')[0]}!=zzz", pick="items[*].metadata.name"
            )
            for each in kind.selectors
        ),
    ]
    for step in steps:
        if "table" in str(step.get("accept")):
            step.pop("mask", None)
    return setup, steps


def _patches(kind: BuiltinKind, media: str, bodies: list[object]) -> tuple[Steps, Steps]:
    steps = [kind.step(f"PATCH {kind.object_path}", type=media, body=body) for body in bodies]
    steps.append(kind.step(f"PATCH {kind.collection}/none-$(id)", name="missing", type=media, body=bodies[0]))
    return [_create(kind)], steps


def _patch_merge(kind: BuiltinKind) -> tuple[Steps, Steps]:
    return _patches(
        kind,
        "merge",
        [
            {"metadata": {"labels": {"a": "b", "c": "d"}}},
            {"metadata": {"labels": {"a": None}, "annotations": {"x": "y"}}},
            {"metadata": {"labels": None}},
            {"metadata": {"labels": {"bad key!": "x"}}},
            {"metadata": {"name": "other"}},
            {"metadata": {"resourceVersion": "1"}},
            {"nosuchfield": 1},
            {},
            [],
        ],
    )


def _patch_json(kind: BuiltinKind) -> tuple[Steps, Steps]:
    return _patches(
        kind,
        "json-patch",
        [
            [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}],
            [{"op": "test", "path": "/metadata/labels/a", "value": "b"}],
            [{"op": "test", "path": "/metadata/labels/a", "value": "c"}],
            [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}],
            [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/c"}],
            [{"op": "remove", "path": "/metadata/labels/none"}],
            [{"op": "remove", "path": "/metadata/labels"}],
            [{"op": "odd", "path": "/metadata"}],
            [{"op": "add", "path": "/nosuchfield", "value": 1}],
            {},
        ],
    )


def _patch_strategic(kind: BuiltinKind) -> tuple[Steps, Steps]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": "u1"}
    return _patches(
        kind,
        "strategic",
        [
            {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/a"]}},
            {"metadata": {"finalizers": ["example.com/b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
            {"metadata": {"ownerReferences": [owner]}},
            {"metadata": {"ownerReferences": [{**owner, "uid": "u2"}]}},
            {"metadata": {"ownerReferences": [{"uid": "u1", "$patch": "delete"}]}},
            {"metadata": {"labels": {"$patch": "replace", "z": "z"}}},
            {"metadata": {"labels": {"$patch": "odd"}}},
            {"metadata": {"finalizers": None, "ownerReferences": None}},
        ],
    )


def _apply(kind: BuiltinKind) -> tuple[Steps, Steps]:
    def step(manager: str, query: str = "", **metadata: object) -> JSONObject:
        body = merge(kind.minimal, {"metadata": metadata})
        request = f"PATCH {kind.object_path}?fieldManager={manager}{query}"
        return kind.step(request, type="apply", managedFields=True, body=body)

    bare = {key: kind.minimal[key] for key in ("apiVersion", "kind", "metadata")}
    steps = [
        kind.step(f"PATCH {kind.object_path}", name="no manager", type="apply", body=kind.minimal),
        step("one", labels={"a": "1"}),
        step("one", labels={"a": "1"}),
        step("two", labels={"a": "2"}),
        step("two", "&force=true", labels={"a": "2", "b": "2"}),
        step("one", labels={"a": "1", "c": "1"}),
        step("two", labels={"b": "2"}),
        kind.step(
            f"PATCH {kind.object_path}?fieldManager=two",
            name="give up all fields",
            type="apply",
            managedFields=True,
            body=bare,
        ),
        kind.step(f"PATCH {kind.object_path}", type="merge", body={"metadata": {"labels": {"u": "v"}}}),
        kind.step(f"GET {kind.object_path}", managedFields=True),
        step("three", "&dryRun=All", labels={"u": "w"}),
        step("one", managedFields=[{"manager": "x"}]),
        step("one", uid="u"),
        kind.step(
            f"PATCH {kind.object_path}?fieldManager=one&fieldValidation=Strict",
            name="unknown field",
            type="apply",
            body={**kind.minimal, "nosuchfield": 1},
        ),
        kind.step(f"PATCH {kind.object_path}?fieldManager=one", name="no kind", type="apply", body={}),
    ]
    return [], steps


def _dry_run(kind: BuiltinKind) -> tuple[Steps, Steps]:
    steps = [
        kind.step(f"POST {kind.collection}?dryRun=All", body=kind.minimal),
        kind.step(f"POST {kind.collection}?dryRun=Some", body=kind.minimal),
        kind.step(f"GET {kind.object_path}", name="not stored"),
        kind.step(f"PATCH {kind.object_path}?dryRun=All&fieldManager=m", type="apply", body=kind.minimal),
        {**_create(kind), "record": False},
        kind.step(
            f"PATCH {kind.object_path}?dryRun=All", type="merge", body={"metadata": {"labels": {"a": "b"}}}
        ),
        kind.step(f"PUT {kind.object_path}?dryRun=All", body=kind.minimal),
        kind.step(f"DELETE {kind.object_path}?dryRun=All"),
        kind.step(f"DELETE {kind.collection}?dryRun=All&labelSelector=none=$(id)"),
        kind.step(f"GET {kind.object_path}", name="unchanged"),
    ]
    return [], steps


def _field_validation(kind: BuiltinKind) -> tuple[Steps, Steps]:
    unknown = {**kind.minimal, "nosuchfield": 1, "metadata": {**kind.minimal["metadata"], "nosuch": 1}}
    text = json.dumps(kind.minimal)
    twice = f'{{"kind": "{kind.minimal["kind"]}", {text[1:]}'
    steps = []
    for mode in ("Strict", "Warn", "Ignore", "Odd"):
        request = f"POST {kind.collection}?dryRun=All&fieldValidation={mode}"
        steps.append(kind.step(request, name=f"unknown, {mode}", body=unknown))
        steps.append(kind.step(request, name=f"duplicate, {mode}", raw=twice))
    for mode in ("Strict", "Warn"):
        request = f"PATCH {kind.object_path}?fieldValidation={mode}"
        steps.append(kind.step(request, type="merge", body={"nosuchfield": 1}))
    return [_create(kind)], steps


def _negotiation(kind: BuiltinKind) -> tuple[Steps, Steps]:
    yaml_text = json.dumps(kind.minimal)
    steps = [
        kind.step(f"GET {kind.object_path}", accept="yaml"),
        kind.step(f"GET {kind.object_path}", accept="partial"),
        {"do": f"GET {kind.object_path}", "accept": "table", "ages": kind.ages},
        kind.step(f"GET {kind.object_path}", accept="protobuf"),
        kind.step(f"GET {kind.collection}?limit=1", accept="protobuf"),
        kind.step(f"GET {kind.object_path}", accept="text/html"),
        kind.step(f"GET {kind.object_path}?pretty=true", layout=True),
        kind.step(f"GET {kind.object_path}", layout=True),
        kind.step(f"POST {kind.collection}?dryRun=All", type="yaml", raw=yaml_text),
        kind.step(f"POST {kind.collection}?dryRun=All", type="text/plain", raw=yaml_text),
        kind.step(f"POST {kind.collection}?dryRun=All", type="merge", raw=yaml_text),
    ]
    return [_create(kind)], steps


def _watch(kind: BuiltinKind) -> tuple[Steps, Steps]:
    field = f"fieldSelector=metadata.name={kind.object_name}"
    read = kind.step(
        f"GET {kind.collection}?{field}", record=False, capture={"rv": "metadata.resourceVersion"}
    )
    setup = [read]
    options = {"mask": kind.mask} if kind.mask else {}
    query = {"fieldSelector": f"metadata.name={kind.object_name}", "resourceVersion": "$(rv)"}
    setup += [
        {"watch": "w", "path": kind.collection, "query": query},
        {"watch": "p", "path": kind.collection, "query": query, "accept": "partial"},
        _create(kind),
        {
            "do": f"PATCH {kind.object_path}",
            "type": "merge",
            "body": {"metadata": {"labels": {"changed": "yes"}}},
        },
        {"do": _delete(kind)},
    ]
    steps: Steps = [
        {"collect": "w", "events": 3, **options},
        {"collect": "p", "events": 3},
    ]
    return setup, steps


def _deletion(kind: BuiltinKind) -> tuple[Steps, Steps]:
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    query = "&".join(filter(None, ("labelSelector=conf=$(id)", kind.delete_query)))
    steps = [
        kind.step(_delete(kind), name="other uid", body={**options, "preconditions": {"uid": "u"}}),
        kind.step(
            _delete(kind),
            name="other resourceVersion",
            body={**options, "preconditions": {"resourceVersion": "1"}},
        ),
        kind.step(_delete(kind), name="odd policy", body={**options, "propagationPolicy": "Odd"}),
        kind.step(
            _delete(kind),
            name="two policies",
            body={**options, "propagationPolicy": "Orphan", "orphanDependents": True},
        ),
        kind.step(_delete(kind), name="other kind", body={"apiVersion": "v1", "kind": "Other"}),
        kind.step(_delete(kind)),
        kind.step(_delete(kind), name="again"),
        {
            **_create(kind, name=f"{kind.object_name}b", labels={"conf": "$(id)"}),
            "may_fail": True,
            "record": False,
        },
        kind.step(
            f"DELETE {kind.collection}?{query}",
            pick=["kind", "items[*].metadata.name"],
        ),
        kind.step(f"GET {kind.collection}?labelSelector=conf=$(id)", pick="items[*].metadata.name"),
    ]
    return [_create(kind)], steps


def _metadata(kind: BuiltinKind) -> tuple[Steps, Steps]:
    request = f"POST {kind.collection}?dryRun=All"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": "u"}
    attempts: list[JSONObject] = [
        {"name": None},
        {"name": "Upper-Case"},
        {"name": "a" * 254},
        {"name": "a" * 64},
        {"name": None, "generateName": "gen-"},
        {"labels": {"bad key!": "v"}},
        {"labels": {"k": "bad value!"}},
        {"labels": {"k": "a" * 64}},
        {"labels": {"a.example.com/" + "k" * 64: "v"}},
        {"annotations": {"bad key!": "v"}},
        {"annotations": {"Upper.Example.com/K": "v"}},
        {"finalizers": ["bad"]},
        {"finalizers": ["example.com/ok"]},
        {"finalizers": ["bad one!"]},
        {"finalizers": ["orphan", "foregroundDeletion"]},
        {"ownerReferences": [owner]},
        {"ownerReferences": [{**owner, "uid": ""}]},
        {"ownerReferences": [{**owner, "kind": ""}]},
        {"ownerReferences": [{**owner, "apiVersion": "a/b/c"}]},
        {"ownerReferences": [{**owner, "controller": True}, {**owner, "uid": "u2", "controller": True}]},
        {"ownerReferences": [{**owner, "apiVersion": "v1", "kind": "Event"}]},
        {"generation": 7, "deletionTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x"},
        {"creationTimestamp": "yesterday"},
        {"uid": "given", "resourceVersion": ""},
        {"managedFields": [{"manager": "m", "operation": "Odd"}]},
        {"managedFields": [{"manager": "m", "operation": "Update", "fieldsType": "Odd"}]},
    ]
    steps = []
    for metadata in attempts:
        step = kind.step(
            request, name=json.dumps(metadata)[:60], body=merge(kind.minimal, {"metadata": metadata})
        )
        if "generateName" in metadata:
            step["types"] = ["metadata.name"]
        steps.append(step)
    return [], steps


def _get(kind: BuiltinKind) -> tuple[Steps, Steps]:
    steps = [
        kind.step(f"GET {kind.object_path}/nosuchsubresource"),
        kind.step(f"GET {kind.path}/{kind.resource}z"),
        kind.step(f"PUT {kind.collection}", name="no PUT of collections", body=kind.minimal),
        kind.step(f"POST {kind.object_path}", name="no POST of objects", body=kind.minimal),
        kind.step(f"PATCH {kind.collection}", name="no PATCH of collections", type="merge", body={}),
        kind.step(
            f"GET {kind.path}",
            pick=[f"resources[name={kind.resource}]", f"resources[name={kind.resource}/status]"],
        ),
        kind.step(f"GET {kind.object_path}", anonymous=True),
        kind.step(
            f"POST {kind.collection}",
            name="impersonated",
            body=kind.minimal,
            headers={"Impersonate-User": "someone"},
        ),
    ]
    return [], steps


_BUILDERS: dict[tuple[str, str], Callable[[BuiltinKind], tuple[Steps, Steps]]] = {
    ("crud", "create, read and update"): _crud,
    ("list", "list"): _list,
    ("patch-merge", "patch"): _patch_merge,
    ("patch-json", "JSON patch"): _patch_json,
    ("patch-strategic", "strategic merge patch"): _patch_strategic,
    ("server-side-apply", "apply"): _apply,
    ("dryrun", "dry run"): _dry_run,
    ("fieldvalidation", "field validation"): _field_validation,
    ("content-negotiation", "media types"): _negotiation,
    ("watch", "watch"): _watch,
    ("delete", "delete"): _deletion,
    ("metadata", "metadata"): _metadata,
    ("misc", "get"): _get,
}
