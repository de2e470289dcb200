"""Snapshots: files, and loading into a control plane."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kubewright.rehearse import ClusterSnapshot, Rehearsal, SnapshotError, read_export, write_export


def config_map(name: str, version: str = "", **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": version, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com", "uid": "crd", "resourceVersion": "7"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            name: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            for name in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}


def test_an_export_is_read_as_it_was_written(tmp_path: Path) -> None:
    for name in ("cluster.json", "cluster.json.gz"):
        snapshot = ClusterSnapshot.of([config_map("a"), config_map("b")], kubernetes_version="1.35")
        write_export(snapshot, tmp_path / name)
        found = read_export(tmp_path / name)
        assert list(found) == list(snapshot)
        assert (found.kubernetes_version, found.moment()) == ("1.35", found.time)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_output_of_kubectl_and_backups_are_read(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, creationTimestamp: 2026-01-02T03:04:05Z}}\n"
    )
    assert [each["metadata"]["name"] for each in read_export(tmp_path / "list.yaml")] == ["a"]
    assert read_export(tmp_path / "list.yaml").moment().isoformat() == "2026-01-02T03:04:05+00:00"
    (tmp_path / "typed.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "b"}}]})
    )
    assert [each["kind"] for each in read_export(tmp_path / "typed.json")] == ["ConfigMap"]
    backup = tmp_path / "backup"
    for path in ("namespaces/shop/a.json", "v1-preferredversion/namespaces/shop/a.json"):
        file = backup / "resources" / "configmaps" / path
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(config_map("a")))
    (backup / "metadata").mkdir()
    (backup / "metadata" / "version").write_text("1")
    (backup / "velero-backup.json").write_text(json.dumps({"kind": "Backup", "apiVersion": "velero.io/v1"}))
    assert len(read_export(backup)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("a: [", "not valid YAML"),
        ('{"a": 1}', "has no apiVersion or no kind"),
        ("", "contains no objects"),
        ("text", "not valid: Expected `object`"),
        ("\x00\x01", "not valid YAML"),
        ('{"apiVersion":"v1","kind":"Pod","metadata":"x"}', "not valid: .*metadata"),
        ('{"apiVersion":"v1","kind":"List","items":[1]}', "not valid: Expected `object`"),
        ('{"apiVersion":"v1","kind":"Pod","metadata":{"ownerReferences":["a"]}}', "not valid: .*owner"),
        ('{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"}', "not valid: .*`spec`"),
        (
            '{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":'
            '{"group":"a","names":{"plural":"b","kind":"B"},"versions":[{"name":"v1"}]}}',
            "no storage version",
        ),
    ],
)
def test_a_damaged_export_is_an_error_that_names_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(SnapshotError, match=message) as caught:
        read_export(tmp_path / "x.json")
    assert "x.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_compressed_export_is_an_error(tmp_path: Path) -> None:
    content = gzip.compress(b'{"kind":"List","items":[]}' + os.urandom(1000))
    damaged = content[:10] + b"\xff" * 20 + content[30:]
    for each in (b"text", content[:40], damaged):
        (tmp_path / "x.json.gz").write_bytes(each)
        with pytest.raises(SnapshotError, match="cannot read") as caught:
            read_export(tmp_path / "x.json.gz")
        assert "x.json.gz" in str(caught.value)


def test_a_control_plane_starts_with_the_objects_as_they_were() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "lost", "uid": "uid-lost"}
    status = {"phase": "Ready"}
    shop = {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {
            "name": "one",
            "namespace": "shop",
            "uid": "uid-one",
            "resourceVersion": "900",
            "generation": 4,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-02-02T03:04:05Z",
            "deletionGracePeriodSeconds": 0,
            "finalizers": ["example.com/hold"],
        },
        "spec": {"size": 1},
        "status": status,
    }
    snapshot = ClusterSnapshot.of(
        [
            config_map("late", "1200"),
            config_map("early", "800", ownerReferences=[owner]),
            shop,
            DEFINITION,
            {"apiVersion": "example.org/v1", "kind": "Unknown", "metadata": {"name": "x"}},
            {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"}},
        ],
        kubernetes_version="v1.34.2",
    )
    rehearsal = Rehearsal(snapshot)
    with rehearsal.started():
        cluster = rehearsal.cluster
        assert str(cluster.plane.kubernetes_version) == "1.34"
        assert cluster.loaded.unserved == {"Unknown.example.org": 1}
        assert sorted(map(str, cluster.loaded.placeholders)) == [
            "Namespace shop",
            "Shop.example.com shop/lost",
        ]
        assert rehearsal.run(rehearsal.settle())
        found = rehearsal.run(cluster.client.get("shops.example.com", "one", namespace="shop")).raw
        assert found == shop
        versions = {
            name: rehearsal.run(cluster.client.get("configmaps", name, namespace="shop")).raw["metadata"][
                "resourceVersion"
            ]
            for name in ("late", "early")
        }
        assert versions == {"late": "1200", "early": "800"}, "the orphan is not collected"
