"""The pod template hash, compared with labels that kube-controller-manager 1.36 set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.apps.v1 import ControllerRevision
from kubewright.api.core.v1 import PodTemplateSpec
from kubewright.api.encoding.codec import decode
from kubewright.workloads.revisions import revision_hash, template_of, template_patch
from kubewright.workloads.template_hash import dump_go_value, fnv1a, safe_encode, template_hash

RECORDED = json.loads((Path(__file__).parent / "data" / "template_hashes.json").read_text())


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: str(case["hash"]))
def test_hash_of_a_real_cluster(case: dict[str, Any]) -> None:
    template = decode(json.dumps(case["template"]).encode(), PodTemplateSpec)
    assert template_hash(template) == case["hash"]
    assert template_hash(template, 0) != case["hash"]
    assert template_hash(template, 0) != template_hash(template, 1)


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("0", "value:(int64)0 scale:(resource.Scale)0"),
        ("100m", "value:(int64)100 scale:(resource.Scale)-3"),
        ("0.5", "value:(int64)5 scale:(resource.Scale)-1"),
        ("1Gi", "value:(int64)1073741824 scale:(resource.Scale)0"),
        ("1e3", "value:(int64)1 scale:(resource.Scale)3"),
        ("2E", "value:(int64)2 scale:(resource.Scale)18"),
    ],
)
def test_quantities(quantity: str, expected: str) -> None:
    assert expected in dump_go_value(quantity, "resource.Quantity")


def test_encoding() -> None:
    assert fnv1a(b"") == 0x811C9DC5
    assert fnv1a(b"a") == 0xE40C292C
    assert set(safe_encode("4294967295")) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_revision_hash_of_a_real_cluster() -> None:
    case = json.loads((Path(__file__).parent / "data" / "revision_hash.json").read_text())
    template = decode(json.dumps(case["template"]).encode(), PodTemplateSpec)
    data = template_patch(template)
    assert revision_hash(data, 0) == case["hash"]
    assert revision_hash(data, 1) != case["hash"]
    assert template_of(ControllerRevision(data=data)) == template
