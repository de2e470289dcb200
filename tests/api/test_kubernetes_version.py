"""Versions of Kubernetes: ranges, feature gates, and the table that a tool derives from the sources."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from kubewright.api.builtin.resources import resources
from kubewright.api.kubernetes_version import (
    NEWEST,
    KubernetesVersion,
    parse_versions,
    supported,
    version_table,
)

TOOLS = Path(__file__).parents[2] / "tools"


def parse(text: str) -> KubernetesVersion:
    return KubernetesVersion.parse(text)


def test_texts_of_a_version() -> None:
    assert parse("1.34") == parse("v1.34.2") < parse("1.35")
    assert parse("") == NEWEST
    assert str(parse("1.34")) == "1.34"
    for wrong in ("1", "2.34", "1.x", "1.34.", "1.9", "latest"):
        with pytest.raises(ValueError, match=r"is not supported; use one of 1\.33, 1\.34"):
            parse(wrong)


def test_lists_of_versions() -> None:
    assert list(map(str, parse_versions("1.33,1.35"))) == ["1.33", "1.35"]
    assert list(map(str, parse_versions("1.33-1.35, 1.34"))) == ["1.33", "1.34", "1.35"]
    assert parse_versions("all") == list(supported())
    for wrong in ("", "-1.35", "1.33-", "1.33,"):
        with pytest.raises(ValueError, match=r"expected versions such as 1\.33,1\.37"):
            parse_versions(wrong)


@pytest.mark.parametrize(
    ("versions", "included"),
    [("", "33 34 35 36"), ("1.35-", "35 36"), ("-1.34", "33 34"), ("1.35", "35"), ("1.34-1.35", "34 35")],
)
def test_ranges(versions: str, included: str) -> None:
    found = [each for each in supported() if each.minor < 37 and each.includes(versions)]
    assert " ".join(str(each.minor) for each in found) == included


def test_every_range_of_the_table_can_be_read() -> None:
    """A range excludes at least one version, and includes at least one."""
    versions = [KubernetesVersion(int(text[2:])) for text in version_table()["versions"]]
    ranges = [text for rows in version_table()["resources"].values() for text in rows.values()]
    ranges += version_table()["plugins"].values()
    for text in ranges:
        assert 0 < sum(version.includes(text) for version in versions) < len(versions), text


def test_a_gate_has_the_stage_of_its_version() -> None:
    gates = [version.gates().get("MutatingAdmissionPolicy") for version in supported()]
    assert [gate and (gate.stage, gate.enabled) for gate in gates][:4] == [
        ("alpha", False),
        ("beta", False),
        ("beta", False),
        ("stable", True),
    ]


def test_resources_of_a_version_are_in_the_order_of_discovery() -> None:
    for version in supported():
        rows = resources(version)
        groups = [row.gvk.group for row in rows]
        assert len({row.gvr for row in rows}) == len(rows)
        assert sorted(groups, key=groups.index) == groups, version
    claims = [row.gvk.version for row in resources(parse("1.33")) if row.plural == "resourceclaims"]
    assert claims == ["v1beta2", "v1beta1", "v1alpha3"]


def test_the_tool_derives_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    kubernetes_sources = import_module("kubernetes_sources")
    sources = kubernetes_sources.sources_folder(None)
    if sources is None:
        pytest.skip("KUBERNETES_SOURCES does not name a clone of the repository of Kubernetes")
    for tool in ("generate_versions", "generate_roles"):
        for path, text in import_module(tool).derive(sources).items():
            assert path.read_text() == text, path.name
