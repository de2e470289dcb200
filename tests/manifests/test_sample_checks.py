"""Samples of a project: checked against the current types by every command, and updated on request."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.deployment_project import ShopProject, make_project

from kubewright.manifests.deployment.samples import sample
from kubewright.manifests.sample_checks import check_samples, update_samples

SAMPLE = "config/samples/store_v1_shop.yaml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopProject:
    return make_project(tmp_path, monkeypatch)


def definition(schema: dict[str, object]) -> dict[str, object]:
    """Return a CRD with one version, whose spec has this schema."""
    root = {"type": "object", "required": ["spec"], "properties": {"spec": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    return {
        "spec": {
            "group": "store.example.com",
            "names": {"kind": "Shop", "singular": "shop", "plural": "shops"},
            "versions": [version],
        }
    }


def outdated(project: ShopProject) -> Path:
    """Generate the manifests, then rename a field and require another; return the sample."""
    project.run("manifests")
    path = project.directory / SAMPLE
    path.write_text(
        "# The shop of the tutorial.\n"
        "apiVersion: store.example.com/v1\n"
        "kind: Shop\n"
        "metadata:\n"
        "  name: shop-sample\n"
        "spec:\n"
        "  replicas: -1\n"
        "  owners: Ann\n",
        encoding="utf-8",
    )
    return path


PROBLEMS = [
    f"{SAMPLE}:8: spec.owners: unknown field",
    f"{SAMPLE}:7: spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or "
    "equal to 0",
]


def test_manifests_writes_its_files_and_warns_of_samples(project: ShopProject) -> None:
    outdated(project)
    result = project.run("manifests")
    for problem in PROBLEMS:
        assert f"Warning: {problem}" in result.output
    assert "run kubewright manifests --update-samples" in result.output


@pytest.mark.parametrize("command", [("manifests", "--check"), ("check",)])
def test_checks_fail_and_name_file_line_and_field(project: ShopProject, command: tuple[str, ...]) -> None:
    outdated(project)
    result = project.run(*command, exit_code=1)
    for problem in PROBLEMS:
        assert problem in result.output


def test_samples_of_a_new_project_are_valid(project: ShopProject) -> None:
    project.run("manifests")
    assert "Warning" not in project.run("manifests", "--check").output


def test_update_keeps_valid_values_and_the_comment_at_the_top(project: ShopProject) -> None:
    path = outdated(project)
    text = path.read_text(encoding="utf-8").replace("  owners: Ann\n", "  owners: Ann\n  owner: Bob\n")
    path.write_text(text, encoding="utf-8")
    result = project.run("manifests", "--update-samples")
    assert f"wrote {SAMPLE}" in result.output
    assert "Warning" not in result.output
    updated = path.read_text(encoding="utf-8")
    assert updated.startswith("# The shop of the tutorial.\n")
    assert yaml.safe_load(updated)["spec"] == {"replicas": 1, "owner": "Bob"}
    project.run("manifests", "--check")


def test_update_does_not_remove_comments_between_fields(project: ShopProject) -> None:
    path = outdated(project)
    text = path.read_text(encoding="utf-8").replace("owners: Ann", "owners: Ann  # on the sign")
    path.write_text(text, encoding="utf-8")
    result = project.run("manifests", "--update-samples")
    assert path.read_text(encoding="utf-8") == text
    assert PROBLEMS[0] in result.output


def test_unserved_versions_and_unknown_kinds_are_problems_and_other_groups_are_not(
    project: ShopProject,
) -> None:
    project.run("manifests")
    (project.directory / SAMPLE).write_text(
        "apiVersion: store.example.com/v2\nkind: Shop\nmetadata: {name: a}\n"
        "---\napiVersion: store.example.com/v1\nkind: Shpo\nmetadata: {name: a}\n"
        "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n",
        encoding="utf-8",
    )
    lines = [
        line
        for line in project.run("manifests", "--check", exit_code=1).output.splitlines()
        if SAMPLE in line
    ]
    assert lines == [
        f"{SAMPLE}:1: apiVersion: version v2 of Shop is not served; its versions are v1",
        f"{SAMPLE}:6: kind: the project has no kind Shpo in group store.example.com; its kinds are Shop",
    ]


def test_a_file_that_is_not_yaml_is_named(project: ShopProject) -> None:
    project.run("manifests")
    (project.directory / SAMPLE).write_text("spec: [\n", encoding="utf-8")
    for command in (("manifests", "--check"), ("check",), ("manifests",)):
        assert f"Error: cannot read the sample {SAMPLE}: " in project.run(*command, exit_code=1).output


def test_samples_meet_patterns_and_rules(tmp_path: Path) -> None:
    crd = definition(
        {
            "type": "object",
            "required": ["schedule", "size", "limit"],
            "properties": {
                "schedule": {"type": "string", "pattern": r"^\S+ \S+ \S+ \S+ \S+$"},
                "size": {"type": "integer", "minimum": 1},
                "limit": {"type": "integer"},
            },
        }
    )
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(sample(crd, "v1")), encoding="utf-8")
    assert check_samples(tmp_path, [crd]) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab#: ", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
SCALARS = st.sampled_from(
    [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 1}, {"type": "boolean"}]
)


@given(
    fields=st.dictionaries(st.sampled_from("abcd"), SCALARS, min_size=1),
    required=st.sets(st.sampled_from("abcd")),
    spec=VALUES,
)
def test_an_updated_sample_is_valid(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, object], required: set[str], spec: object
) -> None:
    crd = definition({"type": "object", "properties": fields, "required": sorted(required & fields.keys())})
    directory = tmp_path_factory.mktemp("samples")
    obj = {"apiVersion": "store.example.com/v1", "kind": "Shop", "metadata": {"name": "a"}, "spec": spec}
    text = yaml.safe_dump(obj)
    (directory / "a.yaml").write_text(text, encoding="utf-8")
    update_samples(directory, [crd])
    problems = check_samples(directory, [crd])
    assert not problems or "#" in text
