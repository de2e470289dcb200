"""What a validation reports, and the content of a bundle that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class BundleFinding:
    """An error or warning, with the file of the bundle and the path of the field."""

    severity: Severity
    file: str
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}: {self.path}" if self.path else self.file
        return f"{self.severity}: {place}: {self.message}"

    def to_json(self) -> dict[str, str]:
        """Return the finding as JSON."""
        return {
            "severity": self.severity,
            "file": self.file,
            "path": self.path,
            "message": self.message,
        }


class Reporter:
    """Collects the findings about one file."""

    def __init__(self, findings: list[BundleFinding], file: str) -> None:
        self._findings = findings
        self.file = file

    def error(self, path: str, message: str) -> None:
        """Add an error: OLM or the API server would reject the bundle."""
        self._findings.append(BundleFinding("error", self.file, path, message))

    def warning(self, path: str, message: str) -> None:
        """Add a warning: the bundle can be installed, but a catalog or a user would miss something."""
        self._findings.append(BundleFinding("warning", self.file, path, message))


@dataclass(frozen=True)
class BundleObject:
    """An object of a bundle, and its file."""

    file: str
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind."""
        return str(self.data.get("kind", ""))

    @property
    def name(self) -> str:
        """The name."""
        return str(as_map(self.data.get("metadata")).get("name", ""))


@dataclass
class BundleContent:
    """The parsed files of a bundle."""

    objects: list[BundleObject] = field(default_factory=list)

    def of_kind(self, kind: str) -> Iterator[BundleObject]:
        """Return the objects of a kind."""
        return (each for each in self.objects if each.kind == kind)


def as_map(value: Any) -> Mapping[str, Any]:
    """Return a value if it is a map, otherwise an empty map."""
    return value if isinstance(value, Mapping) else {}


def as_maps(value: Any) -> list[Mapping[str, Any]]:
    """Return the maps of a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def as_strings(value: Any) -> list[str]:
    """Return the strings of a list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
