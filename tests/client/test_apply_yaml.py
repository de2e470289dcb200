"""Applying manifests: several documents, lists, directories, custom resources after their CRD, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.api.core.v1 import ConfigMap
from kubewright.api.errors import Invalid
from kubewright.client import Client, ManifestError

TWO_DOCUMENTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {started: "2024-01-01T00:00:00Z"}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: two}
"""
CRD_AND_OBJECT = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.yaml.example.com}
spec:
  group: yaml.example.com
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: yaml.example.com/v1
kind: Lamp
metadata: {name: desk, namespace: default}
"""


async def test_documents_and_lists_are_applied_in_order(client: Client, namespace: str) -> None:
    applied = await client.apply_yaml(TWO_DOCUMENTS, namespace=namespace)
    assert [(each.kind, each.name, each.namespace) for each in applied] == [
        ("ConfigMap", "one", namespace),
        ("ConfigMap", "two", namespace),
    ]
    stored = await client.get(ConfigMap, "one", namespace=namespace)
    assert stored.data == {"started": "2024-01-01T00:00:00Z"}
    assert [each.manager for each in stored.metadata.managed_fields or ()] == ["kubewright"]


async def test_a_directory_is_applied_in_alphabetical_order(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
    (tmp_path / "a.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}')
    (tmp_path / "notes.txt").write_text("not a manifest")
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\nresources: [b.yaml]\n")
    applied = await client.apply_yaml(tmp_path, namespace=namespace, dry_run=True)
    assert [each.name for each in applied] == ["a", "b"]
    assert await client.get_or_none(ConfigMap, "a", namespace=namespace) is None
    assert (await client.apply_yaml(str(tmp_path / "b.yaml"), namespace=namespace))[0].name == "b"


async def test_custom_resources_can_follow_their_crd(client: Client) -> None:
    definition, lamp = await client.apply_yaml(CRD_AND_OBJECT)
    try:
        assert lamp.metadata.uid
    finally:
        await client.delete(definition)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: ConfigMap\n", "<text>: document 1: apiVersion is not set"),
        ("- 1\n", "<text>: document 1: expected a mapping, not list"),
        ("a: [\n", "<text>:2: not valid YAML"),
        ("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1}]\n", r"items\[0\]: kind is not set"),
    ],
)
async def test_an_invalid_manifest_is_rejected_before_anything_is_applied(
    client: Client, text: str, message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        await client.apply_yaml(text)


async def test_a_missing_file_is_named(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"cannot read .*missing.yaml: No such file"):
        await client.apply_yaml(tmp_path / "missing.yaml")
    with pytest.raises(ManifestError, match=r"contains no \.yaml"):
        await client.apply_yaml(tmp_path)


async def test_an_error_of_the_server_names_the_object(client: Client, namespace: str) -> None:
    text = TWO_DOCUMENTS.replace("name: two", "name: Two")
    with pytest.raises(Invalid) as caught:
        await client.apply_yaml(text, namespace=namespace)
    assert caught.value.__notes__ == [
        "while applying <text>: document 3: items[0]: ConfigMap Two; 1 of 2 objects were applied"
    ]
