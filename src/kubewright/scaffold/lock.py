"""The scaffold lock: what was generated, from which inputs.

`.kubewright/scaffold.lock` is JSON with one line per entry, committed with the project:

    {"format": 1,
     "project": {"name": "shop", ...},                    `ProjectInputs`; fields with defaults are omitted
     "resources": [{"group": "store", "version": "v1", "kind": "Shop", ...}],           `Resource`s
     "files": {"src/shop/shop_v1.py": ["0.1.0", "api", "eNqF..."],
      "tests/test_shop_controller.py": ["0.1.0", "api", "eNqN..."]}}

An entry of `files` is the version of Kubewright that generated the file, the template set, and the base: the
generated text, compressed with zlib and encoded in base64. For a three-way merge the base is the common
ancestor, the file in the project is one side, and the text that `render_project` returns for `project` and
`resources` is the other. A file whose template set is `copy` was derived from a file of the user (a further
version of a kind): it has no newer text to merge.

When a command extends or moves a generated file, it changes the base in the same way.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .errors import ScaffoldError
from .inputs import ProjectInputs, ResourceInput, from_record, to_record

LOCK_FILE: Final = ".kubewright/scaffold.lock"
FORMAT: Final = 1
MAX_FILE_BYTES: Final = 4 << 20
"""Size limit of a generated file: a small lock file of a foreign project could expand to gigabytes."""
MAX_BYTES: Final = 64 << 20
"""Size limit of all generated files."""


@dataclass(frozen=True)
class GeneratedFile:
    """A generated file: the version that generated it, its template set, and its text at that time."""

    version: str
    templates: str
    base: str


@dataclass
class ScaffoldLock:
    """The content of the lock file."""

    project: ProjectInputs
    resources: list[ResourceInput] = field(default_factory=list)
    files: dict[str, GeneratedFile] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> ScaffoldLock:
        """Read the lock of a project; raise `ScaffoldError` if it does not exist."""
        path = directory / LOCK_FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] > FORMAT:
                raise ScaffoldError(f"{path} was written by a newer Kubewright; upgrade kubewright")
            return cls(
                project=from_record(ProjectInputs, data["project"]),
                resources=[from_record(ResourceInput, each) for each in data["resources"]],
                files=_decode_files(data["files"]),
            )
        except FileNotFoundError:
            raise ScaffoldError(
                f"{directory.absolute()} is not a scaffolded project; create one with kubewright init"
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
            raise ScaffoldError(f"{path} is damaged ({error}); restore it from version control") from None

    def render(self) -> str:
        """Return the text of the lock file."""
        resources = ",\n  ".join(_json(to_record(each)) for each in self.resources)
        files = ",\n  ".join(
            f"{_json(name)}: {_json([each.version, each.templates, _encode(each.base)])}"
            for name, each in sorted(self.files.items())
        )
        return (
            f'{{"format": {FORMAT},\n "project": {_json(to_record(self.project))},\n'
            f' "resources": [{resources}],\n "files": {{{files}}}}}\n'
        )

    def find(self, resource: ResourceInput) -> ResourceInput | None:
        """Return the recorded inputs of the same version of the same kind."""
        return next(
            (
                each
                for each in self.resources
                if each.same_kind(resource) and each.version == resource.version
            ),
            None,
        )

    def put(self, resource: ResourceInput) -> None:
        """Add inputs, or replace those of the same version of the same kind."""
        found = self.find(resource)
        if found is None:
            self.resources.append(resource)
        else:
            self.resources[self.resources.index(found)] = resource

    def versions_of(self, resource: ResourceInput) -> list[ResourceInput]:
        """Return all recorded versions of a kind, the storage version first."""
        return [each for each in self.resources if each.same_kind(resource)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _encode(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _decode_files(entries: dict[str, list[str]]) -> dict[str, GeneratedFile]:
    files: dict[str, GeneratedFile] = {}
    size = 0
    for name, (version, templates, base) in entries.items():
        text = _decode(base)
        size += len(text)
        if size > MAX_BYTES:
            raise ValueError(f"the generated files are larger than {MAX_BYTES >> 20} MiB")
        files[name] = GeneratedFile(version, templates, text)
    return files


def _decode(text: str) -> str:
    reader = zlib.decompressobj()
    data = reader.decompress(base64.b64decode(text), MAX_FILE_BYTES)
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError(f"a generated file is incomplete or larger than {MAX_FILE_BYTES >> 20} MiB")
    return data.decode()
