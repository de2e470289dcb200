"""The API reference of definitions in Markdown and HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.manifests.api_reference import describe_kinds, to_html, to_markdown

CRDS = Path(__file__).parents[1] / "scaffold" / "crds"


def load(name: str) -> dict[str, Any]:
    """Return a definition of the test data."""
    return yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8"))


SAMPLE = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Certificate",
    "metadata": {"name": "web"},
    "spec": {"secretName": "web-tls", "issuerRef": {"name": "ca"}},
}


def test_fields_types_defaults_and_validations() -> None:
    page = to_markdown(describe_kinds([load("certificate")], [SAMPLE]))
    for line in (
        "- [Certificate](#certificate-v1) `cert-manager.io/v1`",
        "## Certificate v1",
        "| `spec.secretName` * | string |  |  |",
        "| `spec.dnsNames` | list of string |  |  |",
        '| `spec.issuerRef.kind` | string | `"Issuer"` |  |',
        "| `spec.revisionHistoryLimit` | integer (int32) |  | At least 1. |",
        "| `spec.isCA` | boolean |  | Whether the certificate may sign other certificates. |",
        "| `status.conditions[].status` * | string |  | One of `True`, `False`, `Unknown`. |",
        "| `status.notAfter` | string |  | Format date-time. |",
    ):
        assert f"{line}\n" in page
    assert "rule `!has(self.commonName) \\|\\| !has(self.literalSubject)`".replace("rule", "Rule") in page
    assert "short name `cert`, `certs`; in a namespace; storage version; columns Ready" in page
    assert "```yaml\napiVersion: cert-manager.io/v1\n" in page
    assert "  secretName: web-tls\n```" in page


def test_versions_maps_and_deprecation() -> None:
    page = to_markdown(describe_kinds([load("verticalpodautoscaler")]))
    assert "Deprecated: autoscaling.k8s.io/v1beta2 API is deprecated" in page
    assert "; not served." in page
    assert "| `spec.resourcePolicy.containerPolicies[].maxAllowed` | map of integer or string |" in page
    assert "| `spec.ratio` | number | `0.5` | Less than 1. |" in page


@pytest.mark.parametrize("name", sorted(path.stem for path in CRDS.glob("*.yaml")))
def test_every_field_is_in_the_html_page(name: str) -> None:
    kinds = describe_kinds([load(name)])
    page = to_html(kinds, title="Kinds & fields")
    assert "<title>Kinds &amp; fields</title>" in page
    for kind in kinds:
        for version in kind.versions:
            assert f'<h2 id="{kind.kind.lower()}-{version.name}">' in page
            assert len(version.fields) > 5
    assert page.count("<tr><td>") == sum(len(each.fields) for kind in kinds for each in kind.versions)


def test_text_is_escaped() -> None:
    crd = load("certificate")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["description"] = "a < b | c"
    kinds = describe_kinds([crd])
    assert "a &lt; b \\| c" in to_markdown(kinds)
    assert "a &lt; b | c" in to_html(kinds)
