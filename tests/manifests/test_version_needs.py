"""What objects, rules, expressions and code need of versions of Kubernetes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from kubewright.api.kubernetes_version import parse_versions
from kubewright.manifests.version_needs import (
    lacks_of_expression,
    lacks_of_object,
    lacks_of_rule,
    lacks_of_source,
)

ALL = parse_versions("all")


def pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "a", "image": "a"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"template": {"spec": {"containers": [container], **spec}}},
    }


def texts(lacks: Any) -> list[str]:
    return [str(lack) for lack in lacks]


def test_fields_that_a_version_lacks_or_drops() -> None:
    assert texts(lacks_of_object(pod(hostnameOverride="a"), ALL)) == [
        "Deployment.spec.template.spec.hostnameOverride: Kubernetes 1.33 lacks the field",
        "Deployment.spec.template.spec.hostnameOverride: Kubernetes 1.34 drops the field, because the "
        "feature gate HostnameOverride is disabled by default",
    ]
    assert not texts(lacks_of_object(pod(hostname="a", unknown=1), ALL))
    absent, dropped = lacks_of_object(pod(workloadRef={"name": "a"}), ALL)
    assert absent.versions == ("1.33", "1.34", "1.36", "1.37")
    assert dropped.versions == ("1.35",)


def test_kinds() -> None:
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    assert texts(lacks_of_object(claim, ALL)) == [
        "resource.k8s.io/v1, Kind=ResourceClaim: Kubernetes 1.33 lacks the kind"
    ]
    beta = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "ResourceClaim"}
    (lack,) = lacks_of_object(beta, parse_versions("1.33"))
    assert "--runtime-config=resource.k8s.io/v1beta2=true" in str(lack)
    assert not texts(lacks_of_object({"apiVersion": "example.com/v1", "kind": "ResourceClaim"}, ALL))


def test_rules() -> None:
    assert texts(lacks_of_rule(["core", "storage.k8s.io"], ["pods", "volumeattributesclasses"], ALL)) == [
        "volumeattributesclasses.storage.k8s.io: Kubernetes 1.33 does not serve the resource"
    ]
    assert not texts(lacks_of_rule(["example.com", "*"], ["shops", "*"], ALL))


@pytest.mark.parametrize(
    ("expression", "versions"),
    [
        ("semver(self.version).major() > 1", [("1.33",)]),
        ("self.items.sortBy(i, i.name)[0].name == 'a'", [("1.33", "1.34")]),
        ("self.mysort(1) && self.semverish == 1", []),
    ],
)
def test_functions_of_expressions(expression: str, versions: list[tuple[str, ...]]) -> None:
    assert [lack.versions for lack in lacks_of_expression(expression, ALL)] == versions


def test_fields_that_code_sets(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from kubewright.api.core import v1\n"
        "from kubewright.api.core.v1 import PodSpec\n"
        "def pod():\n"
        "    PodSpec(hostname='a')\n"
        "    return v1.PodSpec(hostname_override='a')\n"
    )
    (tmp_path / "needy.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    module: ModuleType = __import__("needy")
    lacks = list(lacks_of_source([module], ALL))
    assert [(lack.where.rpartition("/")[2], lack.subject, lack.versions) for lack in lacks] == [
        ("needy.py:5", "PodSpec.hostnameOverride", ("1.33",)),
        ("needy.py:5", "PodSpec.hostnameOverride", ("1.34",)),
    ]
