"""Read files of Kubernetes releases from a clone of its public repository.

The clone is given by `--sources DIR` of the tools, or by `KUBERNETES_SOURCES`; a clone without a work tree is
enough. `RELEASES` names the tag from which the tables of each supported minor version are derived.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache, cached_property
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

RELEASES = {
    "1.33": "v1.33.13",
    "1.34": "v1.34.11",
    "1.35": "v1.35.8",
    "1.36": "v1.36.4",
    "1.37": "v1.37.0-rc.1",
}
"""Tag of each supported version."""
NEWEST = list(RELEASES)[-1]


class Release:
    """The files of one tag."""

    def __init__(self, sources: Path, version: str) -> None:
        self.version = version
        self.minor = int(version.partition(".")[2])
        self._sources = sources
        self._tag = RELEASES[version]

    def _git(self, *arguments: str) -> bytes:
        command = ["git", "-C", str(self._sources), *arguments]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            message = done.stderr.decode().strip()
            raise SystemExit(f"cannot read Kubernetes {self._tag} in {self._sources}: {message}")
        return done.stdout

    def text(self, path: str) -> str:
        """Return the content of a file."""
        return self._git("show", f"{self._tag}:{path}").decode()

    def find(self, folder: str, end: str = "") -> list[str]:
        """Return the paths of files in a folder and below it, by the end of their names."""
        listed = self._git("ls-tree", "-r", "--name-only", self._tag, folder + "/").decode().splitlines()
        return [path for path in listed if path.endswith(end)]

    @cached_property
    def discovery(self) -> list[Schema]:
        """The groups of aggregated discovery, with every version enabled."""
        items: list[Schema] = json.loads(self.text("api/discovery/aggregated_v2.json"))["items"]
        return [{"metadata": {}, "versions": [self._core_version()]}, *items]

    def _core_version(self) -> Schema:
        """Return `v1` of the core group, which the aggregated document lacks, in its form."""
        resources: dict[str, Schema] = {}
        for one in json.loads(self.text("api/discovery/api__v1.json"))["resources"]:
            name, _, sub = one["name"].partition("/")
            kind = {
                "group": one.get("group", ""),
                "version": one.get("version") or "v1",
                "kind": one["kind"],
            }
            if sub:
                parts = resources[name].setdefault("subresources", [])
                parts.append({"subresource": sub, "responseKind": kind, "verbs": one["verbs"]})
                continue
            scope = "Namespaced" if one["namespaced"] else "Cluster"
            resources[name] = {**one, "resource": name, "scope": scope, "responseKind": kind}
        return {"version": "v1", "resources": list(resources.values())}

    @cached_property
    def definitions(self) -> dict[str, Schema]:
        """The definitions of all OpenAPI v3 documents, by name."""
        found: dict[str, Schema] = {}
        for path in self.find("api/openapi-spec/v3", ".json"):
            found.update(json.loads(self.text(path)).get("components", {}).get("schemas", {}))
        return found

    @cached_property
    def group_versions(self) -> list[tuple[str, str]]:
        """All groups and versions with types, also those that are not served."""
        found = []
        for folder in (
            "staging/src/k8s.io/api",
            "staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions",
            "staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration",
        ):
            for path in self.find(folder, "/register.go"):
                name = re.search(r'GroupName = "([^"]*)"', self.text(path))
                version = path.split("/")[-2]
                is_version = re.match(r"v\d", version) is not None
                # `apidiscovery.k8s.io` has no objects of its own.
                if name is not None and name[1] != "apidiscovery.k8s.io" and is_version:
                    found.append((name[1], version))
        return sorted(found)

    @cached_property
    def enumerations(self) -> dict[str, dict[str, list[str]]]:
        """The values of fields with a closed set of values, by type (`core.v1.Pod`) and field."""
        found: dict[str, dict[str, list[str]]] = {}
        name = field = ""
        for line in self.text("pkg/generated/openapi/zz_generated.openapi.go").splitlines():
            if line.startswith("func schema_"):
                words = line.removeprefix("func schema_").partition("(")[0].split("_")
                name = ".".join(words[-3:])
            elif match := re.match(r'\t{5}"([^"]+)": \{$', line):
                field = match[1]
            elif match := re.match(r"\t+Enum:\s+\[\]interface\{\}\{(.*)\},$", line):
                found.setdefault(name, {})[field] = json.loads(f"[{match[1]}]")
        known = {".".join(each.rsplit(".", 3)[1:]) for each in self.definitions}
        return {name: dict(sorted(fields.items())) for name, fields in sorted(found.items()) if name in known}


def sources_folder(given: str | None) -> Path | None:
    """Return the clone to read, if one is given and exists."""
    text = given or os.environ.get("KUBERNETES_SOURCES")
    return Path(text) if text and Path(text).is_dir() else None


@cache
def release(sources: Path, version: str) -> Release:
    """Return the files of a version."""
    return Release(sources, version)
