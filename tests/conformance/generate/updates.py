"""Changes of every field of an existing object, of its status and its scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.generate.builtin_kinds import BuiltinKind, JSONObject
from tests.conformance.generate.field_values import Path, walk


def update_cases(kind: BuiltinKind) -> Iterator[Case]:
    """Cases of one kind."""
    if kind.review or kind.lifecycle == []:
        return
    for variant, target in kind.variants.items():
        path = f"{kind.collection}/{target['metadata']['name']}"
        steps = [_change(kind, path, field, value) for field, value in walk(target)]
        steps = [step for step in steps if step is not None]
        if variant == "full":
            steps += [
                kind.step(f"PATCH {path}?dryRun=All", type="merge", body=patch) for patch in kind.update
            ]
        document = {
            "about": f"{kind.label}: changes of every field ({variant}).",
            "setup": [{"do": f"POST {kind.collection}", "body": target}],
            "steps": steps,
        }
        yield Case(f"builtin-types/updates-{kind.label}-{variant}", document)
    if kind.status is not None:
        yield _status_case(kind, kind.status)
    if kind.scale:
        yield _scale_case(kind)


def _change(kind: BuiltinKind, path: str, field: Path, value: Any) -> JSONObject | None:
    """A dry-run JSON patch that gives the field another value of the same type; `None` for containers."""
    if isinstance(value, bool):
        changed: Any = not value
    elif isinstance(value, int):
        changed = value + 1
    elif isinstance(value, str):
        changed = f"{value}x"
    else:
        return None
    pointer = "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in field)
    operations = [{"op": "replace", "path": pointer, "value": changed}]
    return kind.step(f"PATCH {path}?dryRun=All", name=pointer, type="json-patch", body=operations)


def _status_case(kind: BuiltinKind, status: JSONObject) -> Case:
    path = f"{kind.object_path}/status"
    steps = [
        kind.step(f"PATCH {path}", type="merge", body={"status": status}),
        kind.step(f"GET {path}"),
        kind.step(
            f"PATCH {path}", name="only status", type="merge", body={"metadata": {"labels": {"z": "z"}}}
        ),
        kind.step(f"PATCH {kind.object_path}", name="not status", type="merge", body={"status": {"zzz": 1}}),
        *(
            kind.step(f"PATCH {path}?dryRun=All", type="merge", body={"status": each})
            for each in kind.bad_status
        ),
        kind.step(f"PUT {path}", name="without status", body=kind.minimal),
        kind.step(f"PUT {kind.collection}/none/status", name="missing object", body=kind.minimal),
        kind.step(f"DELETE {path}"),
    ]
    document = {
        "about": f"{kind.label}: the status subresource.",
        "setup": [{"do": f"POST {kind.collection}", "body": kind.minimal}],
        "steps": steps,
    }
    return Case(f"builtin-types/status-{kind.label}", document)


def _scale_case(kind: BuiltinKind) -> Case:
    path = f"{kind.object_path}/scale"
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}}
    steps = [
        kind.step(f"GET {path}"),
        kind.step(f"PUT {path}", body={**body, "spec": {"replicas": 4}}),
        kind.step(f"PUT {path}", body={**body, "spec": {"replicas": -4}}),
        kind.step(f"PUT {path}", name="wrong kind", body=kind.minimal),
        kind.step(
            f"PUT {path}",
            name="conflict",
            body={**body, "metadata": {"name": "x", "resourceVersion": "1"}, "spec": {"replicas": 5}},
        ),
        kind.step(f"PUT {path}", name="other name", body={**body, "metadata": {"name": "y"}}),
        kind.step(f"PATCH {path}", type="merge", body={"spec": {"replicas": 6}}),
        kind.step(f"PATCH {path}", type="merge", body={"spec": {"replicas": "many"}}),
        kind.step(
            f"PATCH {path}", type="json-patch", body=[{"op": "replace", "path": "/spec/replicas", "value": 7}]
        ),
        kind.step(
            f"PATCH {path}?fieldManager=m",
            type="apply",
            managedFields=True,
            body={**body, "spec": {"replicas": 8}},
        ),
        kind.step(f"GET {kind.object_path}", managedFields=True),
        kind.step(f"GET {kind.collection}/none/scale"),
        kind.step(f"DELETE {path}"),
    ]
    document = {
        "about": f"{kind.label}: the scale subresource.",
        "setup": [{"do": f"POST {kind.collection}", "body": kind.minimal}],
        "steps": steps,
    }
    return Case(f"builtin-types/scale-{kind.label}", document)
