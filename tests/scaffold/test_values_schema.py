"""The schema of a spec from `values.yaml` and `values.schema.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubewright.manager import TemplateFolder
from kubewright.scaffold import (
    ProjectInputs,
    ResourceInput,
    ScaffoldError,
    create_api_from_templates,
    init_project,
)
from kubewright.scaffold.types.values_schema import schema_of_values

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
INT = {"type": "integer", "format": "int64"}


def schema_of(directory: Path, values: str = "", schema: Any = None) -> tuple[dict[str, Any], list[str]]:
    (directory / "config.yaml.j2").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    if values:
        (directory / "values.yaml").write_text(values)
    if schema is not None:
        (directory / "values.schema.json").write_text(json.dumps(schema))
    return schema_of_values(TemplateFolder(directory))


def test_types_and_defaults_follow_from_values(tmp_path: Path) -> None:
    schema, warnings = schema_of(
        tmp_path,
        """\
# -- Number of pods.
# More is slower.
replicas: 2
image:
  tag: "1"  # not a description
ratio: 0.5
debug: false
hosts: [a, b]
ports: [{port: 80}]
mixed: [1, a]
nodeSelector: {}
none: null
""",
    )
    assert warnings == []
    assert schema == {
        "type": "object",
        "properties": {
            "replicas": {**INT, "default": 2, "description": "Number of pods. More is slower."},
            "image": {
                "type": "object",
                "properties": {"tag": {"type": "string", "default": "1"}},
                "default": {},
            },
            "ratio": {"type": "number", "default": 0.5},
            "debug": {"type": "boolean", "default": False},
            "hosts": {"type": "array", "items": {"type": "string"}, "default": ["a", "b"]},
            "ports": {"type": "array", "items": {"type": "object", **PRESERVE}, "default": [{"port": 80}]},
            "mixed": {"type": "array", "items": PRESERVE, "default": [1, "a"]},
            "nodeSelector": {"type": "object", **PRESERVE},
            "none": PRESERVE,
        },
    }


def test_any_spec_without_values(tmp_path: Path) -> None:
    assert schema_of(tmp_path) == ({"type": "object", **PRESERVE}, [])


def test_json_schema(tmp_path: Path) -> None:
    schema, warnings = schema_of(
        tmp_path,
        "size: 3\nextra: 1\nnested: {b: x}\n",
        {
            "type": "object",
            "required": ["size", "name"],
            "properties": {
                "size": {"type": "integer", "exclusiveMinimum": 0},
                "name": {"type": ["string", "null"], "anyOf": [{"minLength": 1}]},
                "mode": {"const": "fast"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "nested": {"$ref": "#/$defs/nested"},
                "other": {"$ref": "https://example.com/schema.json"},
            },
            "$defs": {"nested": {"properties": {"b": {"type": "string"}}, "required": ["b"]}},
        },
    )
    assert schema == {
        "type": "object",
        "required": ["name"],
        "properties": {
            "size": {**INT, "minimum": 0, "exclusiveMinimum": True, "default": 3},
            "name": {"type": "string", "nullable": True},
            "mode": {"type": "string", "enum": ["fast"]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "nested": {
                "type": "object",
                "properties": {"b": {"type": "string", "default": "x"}},
                "default": {},
            },
            "other": PRESERVE,
            "extra": {**INT, "default": 1},
        },
    }
    assert warnings == [
        "values.schema.json: .name: anyOf was left out",
        "values.schema.json: .other: https://example.com/schema.json was left out",
    ]


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError, match=r"values.yaml:2: not valid YAML"):
        schema_of(tmp_path, "a: 1\n b: [\n")
    (tmp_path / "values.yaml").unlink()
    with pytest.raises(ScaffoldError, match="the schema is not of type object"):
        schema_of(tmp_path, schema={"type": "string"})


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    project = tmp_path / "project"
    init_project(project, ProjectInputs(name="web"))
    site = ResourceInput(group="web", version="v1", kind="Site")
    with pytest.raises(ScaffoldError, match="missing does not exist"):
        create_api_from_templates(project, tmp_path / "missing", site)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.yaml.j2").write_text("name: {{ spec.unset }}\n")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    with pytest.raises(ScaffoldError, match=r"logo.png is not a text file"):
        create_api_from_templates(project, folder, site)
    assert not (project / "src/web/site_controller.py").exists()
    (folder / "logo.png").unlink()
    changes = create_api_from_templates(project, folder, site)
    assert changes.warnings == [
        "the templates cannot be rendered with the default values: "
        "config.yaml.j2:1: 'dict object' has no attribute 'unset'"
    ]
    with pytest.raises(ScaffoldError, match="Site already exists; templates are for a new kind"):
        create_api_from_templates(project, folder, ResourceInput(group="web", version="v2", kind="Site"))
