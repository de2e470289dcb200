"""Read objects from manifests: multi-document YAML or JSON, `kind: List`, files and directories.

`Client.apply_yaml` uses this. Timestamps stay text, as in `kubectl`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kubewright.api.encoding.yaml_limits import YAMLLimitError, check_limits

from .errors import ManifestError

MAX_BYTES = 64 << 20
MAX_DEPTH = 100
MAX_NODES = 5_000_000
SUFFIXES = (".yaml", ".yml", ".json")

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Loader: Any = type("_Loader", (_SafeLoader,), {})
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
}


class ManifestObject(NamedTuple):
    """An object of a manifest, and the file and document it comes from."""

    source: str
    data: dict[str, Any]

    def __str__(self) -> str:
        metadata = self.data.get("metadata") or {}
        key = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        return f"{self.source}: {self.data.get('kind')} {key}"


def read_manifests(source: str | os.PathLike[str]) -> list[ManifestObject]:
    """Return the objects of a manifest, in order; the items of a `List` in place of the list.

    `source` is the path of a file, the path of a directory (its `.yaml`, `.yml` and `.json` files in
    alphabetical order, without `kustomization.yaml`, which is for kustomize), or manifest text: a `str` with
    a line break or a leading `{`.
    """
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return list(_objects("<text>", source.encode()))
    path = Path(source).expanduser()
    if not path.is_dir():
        return list(_objects(str(path), _read(path)))
    files = sorted(
        each
        for each in path.iterdir()
        if each.suffix in SUFFIXES and each.stem != "kustomization" and each.is_file()
    )
    if not files:
        raise ManifestError(f"{path} contains no {', '.join(SUFFIXES)} files")
    return [found for file in files for found in _objects(str(file), _read(file))]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"cannot read {path}: {error.strerror}") from None


def _objects(source: str, text: bytes) -> Iterator[ManifestObject]:
    for number, document in enumerate(parse_documents(source, text), start=1):
        if document is not None:
            yield from _expand(f"{source}: document {number}", document)


def parse_documents(source: str, text: bytes) -> list[Any]:
    """Return the documents of YAML or JSON text, with limits on its size; `source` is for error messages."""
    if len(text) > MAX_BYTES:
        raise ManifestError(f"{source} is larger than {MAX_BYTES >> 20} MiB")
    try:
        check_limits(
            yaml.parse(text, Loader=_SafeLoader), depth=MAX_DEPTH, most=MAX_NODES, weigh=lambda scalar: 1
        )
        return list(yaml.load_all(text, Loader=_Loader))
    except YAMLLimitError as error:
        raise ManifestError(f"{source}:{error.line}: the document exceeds a limit: {error.problem}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ManifestError(f"{source}{line}: not valid YAML: {problem}") from None
    except ValueError as error:  # a number with thousands of digits, or a date that does not exist
        raise ManifestError(f"{source}: not valid YAML: {error}") from None


def _expand(source: str, document: Any) -> Iterator[ManifestObject]:
    if not isinstance(document, dict):
        raise ManifestError(f"{source}: expected a mapping, not {type(document).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise ManifestError(f"{source}: {field} is not set")
    items = document.get("items")
    if not document["kind"].endswith("List") or not isinstance(items, list):
        yield ManifestObject(source, document)
        return
    for index, item in enumerate(items):
        yield from _expand(f"{source}: items[{index}]", item)
