"""`Kubeconfig`: read and merge kubeconfig files as kubectl does.

`KUBECONFIG` can list several files. The first file that has a value wins, for the current context and for
every named cluster, user and context. Paths in a file are relative to that file. Entries are validated when
a context is resolved; errors name the file and the entry.

Kubeconfigs come from elsewhere, too. A file may have `MAX_SIZE` bytes, `MAX_DEPTH` levels and `MAX_NODES`
values, those that aliases repeat counted each time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kubewright.api.encoding.yaml_limits import YAMLLimitError, check_limits
from kubewright.client.errors import ConfigError

DEFAULT_PATH = "~/.kube/config"
MAX_SIZE = 16 << 20
MAX_DEPTH = 64
MAX_NODES = 500_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_PATHS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}


@dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """One named cluster, user or context, and the file it comes from."""

    name: str
    data: Mapping[str, Any] = field(repr=False)
    file: Path

    def error(self, section: str, message: str) -> ConfigError:
        """Return an error about this entry."""
        return ConfigError(f"{self.file}: {_SECTIONS[section]} {self.name!r}: {message}")


@dataclass(slots=True)
class Kubeconfig:
    """The merged content of one or more kubeconfig files."""

    files: list[Path] = field(default_factory=list)
    current_context: str = ""
    clusters: dict[str, KubeconfigEntry] = field(default_factory=dict)
    users: dict[str, KubeconfigEntry] = field(default_factory=dict)
    contexts: dict[str, KubeconfigEntry] = field(default_factory=dict)

    @classmethod
    def paths(cls, environ: Mapping[str, str] = os.environ) -> list[Path]:
        """Return the files of `KUBECONFIG`, or `~/.kube/config`."""
        listed = environ.get("KUBECONFIG", "")
        if listed:
            return [Path(each).expanduser() for each in dict.fromkeys(listed.split(os.pathsep)) if each]
        return [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]

    @classmethod
    def load(cls, paths: Sequence[str | os.PathLike[str]], *, must_exist: bool = False) -> Kubeconfig:
        """Read and merge files. Missing ones are skipped unless `must_exist`."""
        merged = cls()
        for each in paths:
            path = Path(each).expanduser()
            try:
                with path.open("rb") as file:
                    text = file.read(MAX_SIZE + 1)
            except FileNotFoundError:
                if must_exist:
                    raise ConfigError(f"kubeconfig {path} does not exist") from None
                continue
            except OSError as error:
                raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror}") from None
            merged._merge(path.absolute(), text)
        return merged

    @classmethod
    def parse(cls, text: str | bytes, *, file: str = "<kubeconfig>") -> Kubeconfig:
        """Parse a kubeconfig; relative paths in it are relative to the working directory."""
        merged = cls()
        merged._merge(Path(file), text.encode() if isinstance(text, str) else text)
        return merged

    def _merge(self, path: Path, text: bytes) -> None:
        if len(text) > MAX_SIZE:
            raise ConfigError(f"{path}: larger than {MAX_SIZE >> 20} MiB; not a kubeconfig")
        try:
            _check_bounds(path, text)
            content = yaml.load(text, Loader=_LOADER)  # noqa: S506
        except yaml.YAMLError as error:
            # The text of the error quotes the line, which can contain a token.
            mark = getattr(error, "problem_mark", None)
            where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
            raise ConfigError(
                f"{where}: not YAML: {getattr(error, 'problem', None) or 'unreadable'}"
            ) from None
        except ValueError as error:
            # A scalar that looks like a date or a number but is not valid.
            raise ConfigError(f"{path}: {error}") from None
        if content is None:
            return
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: a kubeconfig must be a mapping with clusters, users and contexts")
        self.files.append(path)
        if not self.current_context:
            self.current_context = content.get("current-context") or ""
        for section, key in _SECTIONS.items():
            known: dict[str, KubeconfigEntry] = getattr(self, section)
            for name, data in _named(path, section, key, content.get(section)):
                if name not in known:
                    known[name] = KubeconfigEntry(name, _resolved(data, _PATHS[section], path), path)

    def context(self, name: str = "") -> KubeconfigEntry:
        """Return a context by name, or the current context."""
        wanted = name or self.current_context
        where = ", ".join(map(str, self.files)) or "no kubeconfig file"
        if not wanted:
            raise ConfigError(
                f"{where}: no current-context is set; choose one with `kubectl config use-context NAME`"
            )
        found = self.contexts.get(wanted)
        if found is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"{where}: context {wanted!r} does not exist; available: {known}")
        return found

    def cluster_of(self, context: KubeconfigEntry) -> KubeconfigEntry:
        """Return the cluster of a context."""
        return self._referred(context, "cluster", self.clusters)

    def user_of(self, context: KubeconfigEntry) -> KubeconfigEntry | None:
        """Return the user of a context; `None` for anonymous requests."""
        return self._referred(context, "user", self.users) if context.data.get("user") else None

    def _referred(
        self, context: KubeconfigEntry, key: str, known: Mapping[str, KubeconfigEntry]
    ) -> KubeconfigEntry:
        name = context.data.get(key)
        if not name:
            raise context.error("contexts", f"has no {key}")
        found = known.get(name)
        if found is None:
            raise context.error("contexts", f"{key} {name!r} does not exist")
        return found


def _check_bounds(path: Path, text: bytes) -> None:
    """Raise `ConfigError` for a file that exceeds the limits."""
    try:
        check_limits(
            yaml.parse(text, Loader=_LOADER), depth=MAX_DEPTH, most=MAX_NODES, weigh=lambda scalar: 1
        )
    except YAMLLimitError as error:
        if error.problem == "anchor":
            return  # The YAML parser reports it with its position.
        why = {
            "depth": f"nested more than {MAX_DEPTH} levels deep",
            "size": f"more than {MAX_NODES} values, those of aliases included",
            "cycle": f"*{error.anchor} is part of the value it refers to",
        }
        raise ConfigError(f"{path}:{error.line}: {why[error.problem]}") from None


def _named(path: Path, section: str, key: str, entries: Any) -> list[tuple[str, dict[str, Any]]]:
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: {section} must be a list")
    result = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"{path}: {section}[{index}] needs a name")
        data = entry.get(key)
        if data is not None and not isinstance(data, dict):
            raise ConfigError(f"{path}: {key} {entry['name']!r} must be a mapping")
        result.append((entry["name"], data or {}))
    return result


def _resolved(data: dict[str, Any], keys: Sequence[str], file: Path) -> dict[str, Any]:
    """Return an entry with absolute paths."""
    resolved = dict(data)
    for key in keys:
        if resolved.get(key):
            resolved[key] = str(file.parent / Path(str(resolved[key])).expanduser())
    command = (resolved.get("exec") or {}).get("command")
    if isinstance(command, str) and os.sep in command and not os.path.isabs(command):
        resolved["exec"] = {**resolved["exec"], "command": str(file.parent / command)}
    return resolved
