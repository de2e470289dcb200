"""Metadata of a project for the ClusterServiceVersion: `[project]` of `pyproject.toml`, and an icon."""

from __future__ import annotations

import base64
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

MEDIA_TYPES: Final = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
}
"""Types of icons by the suffix of the file."""


@dataclass(frozen=True, kw_only=True)
class ProjectMetadata:
    """What a catalog shows about an operator."""

    version: str = ""
    description: str = ""
    keywords: Sequence[str] = ()
    maintainers: Sequence[Mapping[str, str]] = ()
    """Maps with `name` and `email`."""
    links: Mapping[str, str] = field(default_factory=dict)
    """URLs by name."""
    icon: tuple[str, str] | None = None
    """Media type and base64 data."""

    @classmethod
    def load(cls, directory: Path, *, icons: Path | None = None) -> Self:
        """Read `pyproject.toml`; `icons` is a directory with an optional `icon.svg` or `icon.png`."""
        try:
            document = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError):
            document = {}
        project = document.get("project")
        project = project if isinstance(project, dict) else {}
        people = [*_maps(project.get("maintainers")), *_maps(project.get("authors"))]
        maintainers = [{key: str(each[key]) for key in ("name", "email") if each.get(key)} for each in people]
        return cls(
            version=str(project.get("version", "")),
            description=str(project.get("description", "")),
            keywords=[str(each) for each in project.get("keywords") or ()],
            maintainers=[each for index, each in enumerate(maintainers) if each not in maintainers[:index]],
            links={str(name): str(url) for name, url in (project.get("urls") or {}).items()},
            icon=_icon(icons) if icons is not None else None,
        )

    @property
    def homepage(self) -> str:
        """The link named `Homepage`, or the first one."""
        named = {name.lower(): url for name, url in self.links.items()}
        return named.get("homepage") or next(iter(self.links.values()), "")

    @property
    def repository(self) -> str:
        """The link to the source code."""
        named = {name.lower(): url for name, url in self.links.items()}
        return next((named[name] for name in ("repository", "source", "github") if name in named), "")


def _maps(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _icon(directory: Path) -> tuple[str, str] | None:
    for suffix, media_type in MEDIA_TYPES.items():
        path = directory / f"icon{suffix}"
        if path.is_file():
            return media_type, base64.b64encode(path.read_bytes()).decode()
    return None
