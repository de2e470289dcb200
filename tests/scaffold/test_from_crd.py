"""Types generated from CustomResourceDefinitions declare the same definitions."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.api import decode, encode
from kubewright.api.declaring.declarations import is_resource
from kubewright.scaffold.source.python_source import quote
from kubewright.scaffold.types.from_crd import CRDError, generate_types, read_crds, write_types
from kubewright.schema.structural import Node
from kubewright.schema.validation.compiled import Compiled
from kubewright.schema.validation.values import validate_value

from .generated import CRDS, import_types, normalized, regenerate

ROOT = Path(__file__).parents[2]
TEXT = {"type": "string"}
NAMES = sorted(path.stem for path in CRDS.glob("*.yaml"))


def load(name: str) -> dict[str, Any]:
    """Return a definition of the test data."""
    return yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8"))


def with_schema(spec: dict[str, Any], *, required: list[str] | None = None, **version: Any) -> dict[str, Any]:
    """Return a definition of the kind Probe with a schema of its spec."""
    schema = {"type": "object", "properties": {"spec": spec}, "required": required or ["spec"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "probes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Probe", "plural": "probes"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


@pytest.mark.parametrize("name", NAMES)
def test_manifests_of_the_types_equal_the_original(name: str, tmp_path: Path) -> None:
    crd = load(name)
    assert normalized(regenerate(crd, tmp_path)) == normalized(crd)


def test_generated_code_passes_ruff_and_mypy(tmp_path: Path) -> None:
    for name in NAMES:
        write_types(load(name), tmp_path)
    files = sorted(str(path) for path in tmp_path.glob("*.py"))
    assert len(files) == 18
    lint = ["ruff", "check", "--isolated", "--select", "E,F,W,I,UP,B,C4,SIM,N", "--line-length", "110"]
    checks = [
        [sys.executable, "-m", *lint, *files],
        [sys.executable, "-m", "ruff", "format", "--check", "--isolated", "--line-length", "110", *files],
        [sys.executable, "-m", "mypy", "--strict", *files],  # with the cache of `make lint`
    ]
    for command in checks:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_fields_are_snake_case_with_their_json_names(tmp_path: Path) -> None:
    (module,) = import_types(load("certificate"), tmp_path)
    text = b'{"spec": {"secretName": "tls", "isCA": true, "issuerRef": {"name": "ca"}}}'
    certificate = decode(text, module.Certificate)
    assert certificate.spec.secret_name == "tls"
    assert certificate.spec.is_ca is True
    assert certificate.spec.issuer_ref.kind == "Issuer"
    assert b'"isCA":true' in encode(certificate)
    assert certificate.status.conditions is None


def test_descriptions_become_docstrings_and_descriptions_again(tmp_path: Path) -> None:
    schema = regenerate(load("certificate"), tmp_path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    original = load("certificate")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["description"] == original["description"]
    spec, before = schema["properties"]["spec"], original["properties"]["spec"]
    assert spec["description"] == before["description"]
    assert spec["properties"]["isCA"]["description"] == before["properties"]["isCA"]["description"]
    acme = regenerate(load("issuer"), tmp_path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    bundle = acme["properties"]["spec"]["properties"]["acme"]["properties"]["caBundle"]
    assert bundle["description"] == 'PEM encoded "CA" certificates,\nused for \\ the server.'


def test_keywords_builtins_and_collisions_get_distinct_names(tmp_path: Path) -> None:
    modules = {
        module.__name__.rpartition("_")[2]: module
        for module in import_types(load("verticalpodautoscaler"), tmp_path)
    }
    spec = modules["v1beta2"].VerticalPodAutoscalerSpec
    names = dict(zip(spec.__struct_fields__, spec.__struct_encode_fields__, strict=True))
    assert names["class_"] == "class"
    assert names["copy_"] == "copy"
    assert names["list_"] == "list"
    assert names["field_100percent"] == "100percent"
    assert names["ref"] == "$ref"
    assert (names["foo_bar"], names["foo_bar_2"]) == ("fooBar", "foo_bar")


def test_builtin_types_are_reused() -> None:
    source = generate_types(load("prometheus"))["v1"]
    assert "pod_monitor_selector: LabelSelector | None = None" in source
    assert "resources: ResourceRequirements | None = None" in source
    assert "class LabelSelector" not in source
    route = generate_types(load("httproute"))["v1"]
    assert "list[Condition]" in route


def test_a_kind_with_the_name_of_an_import_is_renamed(tmp_path: Path) -> None:
    crd = with_schema({"type": "object"})
    crd["spec"]["names"] = {"kind": "Scale", "plural": "scales", "listKind": "ScaleSet", "singular": "scale"}
    crd["metadata"]["name"] = "scales.example.com"
    assert normalized(regenerate(crd, tmp_path)) == normalized(crd)
    (module,) = import_types(crd, tmp_path)
    assert module.ScaleResource.gvk.kind == "Scale"


def test_external_kinds_are_not_part_of_manifests(tmp_path: Path) -> None:
    source = generate_types(load("certificate"), external=True)["v1"]
    assert "external=True" in source


def test_every_version_is_a_module(tmp_path: Path) -> None:
    paths = write_types(load("machine"), tmp_path)
    assert [path.name for path in paths] == ["machine_v1beta1.py", "machine_v1beta2.py"]
    assert write_types(load("machine"), tmp_path) == paths
    paths[0].write_text("# mine\n", encoding="utf-8")
    with pytest.raises(FileExistsError, match=r"machine_v1beta1\.py exists"):
        write_types(load("machine"), tmp_path)
    assert paths[0].read_text(encoding="utf-8") == "# mine\n"


def test_objects_valid_and_invalid_under_the_original_are_so_under_the_generated_one(tmp_path: Path) -> None:
    crd = load("httproute")
    schemas = [
        each["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for each in (crd, regenerate(crd, tmp_path))
    ]
    validators = [Compiled.of(Node(schema)) for schema in schemas]
    rule = {"backendRefs": [{"name": "a", "port": 80, "weight": 1, "kind": "Service", "group": ""}]}
    valid = {"spec": {"hostnames": ["example.com"], "rules": [rule]}}
    invalid: list[dict[str, Any]] = [
        {},
        {"spec": {"hostnames": ["-"]}},
        {"spec": {"rules": []}},
        {"spec": {"rules": [{"filters": [{"type": "Unknown"}]}]}},
        {"spec": {"rules": [{"backendRefs": [{"name": "a", "port": 0}]}]}},
        {"spec": {"parentRefs": "all"}},
    ]
    assert all(not list(validate_value(validator, valid)) for validator in validators)
    for value in invalid:
        before, after = ([str(error) for error in validate_value(each, value)] for each in validators)
        assert before == after
        assert before


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Deployment"}, "not a CustomResourceDefinition but Deployment"),
        (
            {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1"},
            "convert it to apiextensions.k8s.io/v1",
        ),
        ({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1"}, "are required"),
    ],
)
def test_other_documents_are_rejected(document: dict[str, Any], message: str) -> None:
    with pytest.raises(CRDError, match=message):
        generate_types(document)


def test_a_version_without_schema_is_rejected() -> None:
    crd = with_schema({"type": "object"}, schema={})
    with pytest.raises(CRDError, match="version v1 of Probe has no schema"):
        generate_types(crd)


def test_definitions_are_read_from_lists_and_several_documents(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    items = {"apiVersion": "v1", "kind": "List", "items": [load("machine")]}
    path.write_text(yaml.safe_dump_all([load("cluster"), items]), encoding="utf-8")
    assert [each["spec"]["names"]["kind"] for each in read_crds(path)] == ["Cluster", "Machine"]
    with pytest.raises(CRDError, match="contains no CustomResourceDefinition"):
        read_crds("apiVersion: v1\nkind: Secret\n")


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "properties": {"a": {"type": "string"}}, "default": {}},
        {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
        {"type": "object", "required": ["b"], "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": TEXT}}}},
    ],
)
def test_specs_of_every_shape(spec: dict[str, Any], tmp_path: Path) -> None:
    crd = with_schema(spec)
    assert normalized(regenerate(crd, tmp_path)) == normalized(crd)


def test_a_kind_without_spec(tmp_path: Path) -> None:
    crd = with_schema({"type": "object"})
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"] = {
        "data": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "status": {"type": "object", "required": ["phase"], "properties": {"phase": {"type": "string"}}},
    }
    schema["required"] = ["data"]
    assert normalized(regenerate(crd, tmp_path)) == normalized(crd)
    (module,) = import_types(crd, tmp_path)
    assert is_resource(module.Probe)


@pytest.mark.parametrize(
    "text", ["", "a", "it's", 'say "a"', "'\"", "\\'", '\\"', "\n\t", "é", "'''\"\"", "\\"]
)
def test_string_literals(text: str) -> None:
    assert ast.literal_eval(quote(text)) == text
