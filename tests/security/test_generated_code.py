"""Definitions, lock files and replay files of others become code and files only as far as intended."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubewright.cli.operators.explore import explore_command
from kubewright.explore.replay import Replay
from kubewright.scaffold import ProjectInputs, init_project
from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.lock import LOCK_FILE, ScaffoldLock
from kubewright.scaffold.types.from_crd import CRDError, generate_types, write_types
from kubewright.scaffold.types.generated_code import GeneratedCodeError, check_types


def definition(spec: dict[str, Any], *, version: str = "v1", description: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {"spec": spec}, "required": ["spec"]}
    if description:
        schema["description"] = description
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "probes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Probe", "plural": "probes"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


PLAIN = {"type": "object", "properties": {"size": {"type": "integer"}}}


@pytest.mark.parametrize("length", [90, 120, 400, 5000])
def test_long_defaults_are_complete(length: int) -> None:
    text = "word " * (length // 5)
    spec = {"type": "object", "properties": {"text": {"type": "string", "default": text}}}
    # generate_types compares the schema of the types with that of the definition.
    assert generate_types(definition(spec))


@pytest.mark.parametrize("text", ['"""', 'a"""', '\\"""', 'a\\"', '"""\nimport os\n"""', "\0", "\r\x0c\x1b"])
def test_descriptions_cannot_end_a_docstring(text: str) -> None:
    (source,) = generate_types(definition(PLAIN, description=text)).values()
    assert "\nimport os" not in source


@pytest.mark.parametrize("version", ["../evil", "v1/../../evil", "..", "v1\0", "V1", "v1\n", "1v", ""])
def test_names_of_versions_cannot_leave_the_directory(version: str, tmp_path: Path) -> None:
    target = tmp_path / "types"
    with pytest.raises(CRDError, match="is not a lower-case name such as v1"):
        write_types(definition(PLAIN, version=version), target)
    assert not target.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "addition",
    [
        "import os\n",
        "from os import system\n",
        "print(1)\n",
        "x = __import__('os').system('true')\n",
        "for each in (): pass\n",
        "class A:\n    def run(self): pass\n",
        "class A:\n    x: int = (lambda: 1)()\n",
    ],
)
def test_generated_code_contains_only_declarations(addition: str) -> None:
    crd = definition(PLAIN)
    source = generate_types(crd)["v1"]
    check_types(crd, "v1", source)
    with pytest.raises(GeneratedCodeError, match="is not a declaration"):
        check_types(crd, "v1", source + addition)


def test_types_that_differ_from_the_definition_are_not_written() -> None:
    crd = definition(PLAIN)
    source = generate_types(crd)["v1"].replace("size:", "sizes:")
    with pytest.raises(GeneratedCodeError, match=r"schema\.properties\.spec\.properties\.size"):
        check_types(crd, "v1", source)


def test_a_lock_file_cannot_expand_without_limit(tmp_path: Path) -> None:
    init_project(tmp_path, ProjectInputs(name="shop", domain="example.com"))
    lock = tmp_path / LOCK_FILE
    data = json.loads(lock.read_text())
    name = next(iter(data["files"]))
    data["files"][name][2] = base64.b64encode(zlib.compress(bytes(64 << 20), 9)).decode()
    lock.write_text(json.dumps(data))
    with pytest.raises(ScaffoldError, match="incomplete or larger than 4 MiB"):
        ScaffoldLock.read(tmp_path)
    entry = ["0.1.0", "api", base64.b64encode(zlib.compress(bytes(4 << 20), 9)).decode()]
    data["files"] = {f"src/shop/{number}.py": entry for number in range(1000)}
    lock.write_text(json.dumps(data))
    with pytest.raises(ScaffoldError, match="the generated files are larger than 64 MiB"):
        ScaffoldLock.read(tmp_path)


def test_a_replay_file_cannot_execute_a_file_of_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.py"
    project.mkdir()
    outside.write_text("from pathlib import Path\n\nPath(__file__).with_name('executed').touch()\n")
    monkeypatch.chdir(project)
    Replay(token="any?seed=0", operator="shop:operator", scenario_file=str(outside)).write("replay.json")
    result = CliRunner().invoke(explore_command, ["--replay", "replay.json"])
    assert result.exit_code == 2
    assert "is not below the current directory and would be executed" in result.output
    assert not (tmp_path / "executed").exists()
