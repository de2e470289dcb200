"""kubeconfig files: read, merged and resolved the way kubectl does it.

`KUBECONFIG` may name several files. They are merged: the first file that says something wins, for the
current context as for every named cluster, user and context. Paths inside a file are relative to that file.
Nothing is checked until a context is resolved; then every complaint names the file and the entry.

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

from kubewright.api.yaml_limits import YAMLLimitError, check_limits
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

    def complain(self, section: str, problem: str) -> ConfigError:
        """An error about this entry."""
        return ConfigError(f"{self.file}: {_SECTIONS[section]} {self.name!r}: {problem}")


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
        """The files that apply: those of `KUBECONFIG`, else `~/.kube/config`."""
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
                raise ConfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from None
            merged._merge(path.absolute(), text)
        return merged

    @classmethod
    def parse(cls, text: str | bytes, *, file: str = "<kubeconfig>") -> Kubeconfig:
        """Take a kubeconfig from text; relative paths in it refer to the working directory."""
        merged = cls()
        merged._merge(Path(file), text.encode() if isinstance(text, str) else text)
        return merged

    def _merge(self, path: Path, text: bytes) -> None:
        if len(text) > MAX_SIZE:
            raise ConfigError(f"{path}: longer than {MAX_SIZE >> 20} MiB; this is no kubeconfig")
        try:
            _check_bounds(path, text)
            content = yaml.load(text, Loader=_LOADER)  # noqa: S506
        except yaml.YAMLError as error:
            # The error's own text quotes the line, which may hold a token.
            mark = getattr(error, "problem_mark", None)
            where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
            raise ConfigError(
                f"{where}: not YAML: {getattr(error, 'problem', None) or 'unreadable'}"
            ) from None
        except ValueError as error:
            # Text that looks like a date or a number, and is none.
            raise ConfigError(f"{path}: {error}") from None
        if content is None:
            return
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: a kubeconfig is a mapping with clusters, users and contexts")
        self.files.append(path)
        if not self.current_context:
            self.current_context = content.get("current-context") or ""
        for section, key in _SECTIONS.items():
            known: dict[str, KubeconfigEntry] = getattr(self, section)
            for name, data in _named(path, section, key, content.get(section)):
                if name not in known:
                    known[name] = KubeconfigEntry(name, _resolved(data, _PATHS[section], path), path)

    def context(self, name: str = "") -> KubeconfigEntry:
        """A context by name, or the current one."""
        wanted = name or self.current_context
        where = ", ".join(map(str, self.files)) or "no kubeconfig file"
        if not wanted:
            raise ConfigError(
                f"{where}: no current-context is set; choose one with `kubectl config use-context NAME`"
            )
        found = self.contexts.get(wanted)
        if found is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"{where}: context {wanted!r} does not exist; there are: {known}")
        return found

    def cluster_of(self, context: KubeconfigEntry) -> KubeconfigEntry:
        """The cluster a context points at."""
        return self._referred(context, "cluster", self.clusters)

    def user_of(self, context: KubeconfigEntry) -> KubeconfigEntry | None:
        """The user a context points at; a context without one is anonymous."""
        return self._referred(context, "user", self.users) if context.data.get("user") else None

    def _referred(
        self, context: KubeconfigEntry, key: str, known: Mapping[str, KubeconfigEntry]
    ) -> KubeconfigEntry:
        name = context.data.get(key)
        if not name:
            raise context.complain("contexts", f"has no {key}")
        found = known.get(name)
        if found is None:
            raise context.complain("contexts", f"{key} {name!r} does not exist")
        return found


def _check_bounds(path: Path, text: bytes) -> None:
    """Refuse what would cost more to read than a kubeconfig can be worth."""
    try:
        check_limits(
            yaml.parse(text, Loader=_LOADER), depth=MAX_DEPTH, most=MAX_NODES, weigh=lambda scalar: 1
        )
    except YAMLLimitError as error:
        if error.problem == "anchor":
            return  # Reading it says so, too, and where.
        why = {
            "depth": f"nested more than {MAX_DEPTH} levels deep",
            "size": f"more than {MAX_NODES} values, those of aliases included",
            "cycle": f"*{error.anchor} stands inside of what it repeats",
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
    """Make the paths of an entry independent of the working directory."""
    resolved = dict(data)
    for key in keys:
        if resolved.get(key):
            resolved[key] = str(file.parent / Path(str(resolved[key])).expanduser())
    command = (resolved.get("exec") or {}).get("command")
    if isinstance(command, str) and os.sep in command and not os.path.isabs(command):
        resolved["exec"] = {**resolved["exec"], "command": str(file.parent / command)}
    return resolved
