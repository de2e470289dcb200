"""`validate_bundle` reports any broken content of a bundle, and never fails itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.deployment_project import PROGRAM, make_project

from kubewright.manifests.bundle import validate_bundle

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 5),
    st.floats(),
    st.sampled_from(["", "x", "v1", "*", "[", "{}", "[1]", '[{"a": 1}]', "a.b.c", "1.2.3", "é"]),
    st.lists(st.one_of(st.integers(), st.text(max_size=2), st.none()), max_size=2),
    st.dictionaries(st.sampled_from(["name", "type", "kind", "x"]), st.integers(), max_size=2),
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as patch:
        project = make_project(directory, patch)
        project.program(
            PROGRAM.replace("Status, resource", "Status, WebhookConversion, resource").replace(
                'version="v1")', 'version="v1", conversion=WebhookConversion())'
            )
        )
        project.run("bundle", "--version", "1.0.0")
        yield directory / "bundle"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the paths of all values within a value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    target = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return changed


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_broken_values_are_findings(bundle: Path, data: st.DataObject) -> None:
    names = ("shop.clusterserviceversion.yaml", "store.example.com_shops.yaml")
    files = [*(bundle / "manifests" / name for name in names), bundle / "metadata/annotations.yaml"]
    file = data.draw(st.sampled_from(files))
    text = file.read_text()
    document = yaml.load(text, yaml.CSafeLoader)
    path = data.draw(st.sampled_from(list(places(document))))
    changed = put(document, path, data.draw(VALUES))
    try:
        file.write_text(yaml.dump(changed, Dumper=yaml.CSafeDumper))
        findings = validate_bundle(bundle)
    finally:
        file.write_text(text)
    assert all(each.message for each in findings)
