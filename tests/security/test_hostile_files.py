"""Files of other projects: charts, kro graphs, bundles (CSVs) and manifests that were written to do harm.

Each is read completely or rejected by the error that its reader documents: no recursion error, no expansion
of aliases, no file that never ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubewright.client.errors import ManifestError
from kubewright.client.manifest_files import read_manifests
from kubewright.composition.expressions import TemplateError
from kubewright.composition.template import CompositionTemplate
from kubewright.manager.expansion.template_folder import RenderError, TemplateFolder
from kubewright.manifests.bundle.validation import validate_bundle

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(9)
)
TEXTS = {
    "aliases that expand to 10,000,000,000 values": LAUGHS,
    "brackets": "a: " + "[" * 5000 + "]" * 5000,
    "indentation": "".join(" " * level + "a:\n" for level in range(1000)),
    "a cycle": "a: &a\n  b: *a\n",
    "an undefined anchor": "a: *b\n",
    "a control character": 'a: "\x00"\n',
    "a number with 5000 digits": "a: " + "9" * 5000 + "\n",
    "a Python object": "a: !!python/object/apply:os.system [exit]\n",
    "bytes": "a: \udcff\n",
}


def _indented(text: str, spaces: int) -> str:
    return "".join(" " * spaces + line + "\n" for line in text.splitlines())


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


async def _chart(directory: Path, text: str) -> Any:
    _write(directory / "values.yaml", text)
    _write(directory / "a.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec: {{ spec | to_json }}\n")
    return await TemplateFolder(directory).render({"metadata": {"name": "a"}, "spec": {}})


async def _graph(directory: Path, text: str) -> Any:
    head = (
        "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: a}\nspec:\n  schema:\n"
    )
    return CompositionTemplate.load(_write(directory / "graph.yaml", head + _indented(text, 4)))


async def _manifest(directory: Path, text: str) -> Any:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
    return read_manifests(_write(directory / "a.yaml", head + _indented(text, 2)))


READERS: dict[str, tuple[Callable[[Path, str], Any], type[Exception]]] = {
    "values of a chart": (_chart, RenderError),
    "graph of kro": (_graph, TemplateError),
    "manifest": (_manifest, ManifestError),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("reader", READERS)
async def test_a_hostile_document_is_rejected(reader: str, name: str, tmp_path: Path) -> None:
    read, error = READERS[reader]
    with pytest.raises(error) as raised:
        await read(tmp_path, TEXTS[name])
    assert len(str(raised.value)) < 2000


def _bundle(directory: Path, manifest: str) -> Path:
    _write(directory / "metadata/annotations.yaml", "annotations: {}\n")
    _write(directory / "manifests/a.yaml", manifest)
    return directory


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", ["ClusterServiceVersion", "CustomResourceDefinition"])
def test_a_hostile_bundle_is_reported(kind: str, name: str, tmp_path: Path) -> None:
    text = f"apiVersion: a/v1\nkind: {kind}\nmetadata: {{name: a.v1}}\nspec:\n" + _indented(TEXTS[name], 2)
    assert validate_bundle(_bundle(tmp_path, text))


def test_deep_examples_of_a_bundle_are_reported(tmp_path: Path) -> None:
    text = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n"
    text += "metadata:\n  name: a.v1.0.0\n"
    text += f"  annotations: {{alm-examples: '{'[' * 100_000}'}}\n"
    messages = [str(each) for each in validate_bundle(_bundle(tmp_path, text))]
    assert any("alm-examples" in each and "is not JSON" in each for each in messages), messages


def test_files_that_never_end_are_not_read(tmp_path: Path) -> None:
    """A directory that was unpacked from an archive can contain a pipe."""
    _bundle(tmp_path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    os.mkfifo(tmp_path / "manifests" / "pipe.yaml")
    assert [each.data["kind"] for each in read_manifests(tmp_path / "manifests")] == ["ConfigMap"]
    assert any("pipe.yaml" in str(each) for each in validate_bundle(tmp_path))
