"""`ClusterSnapshot`: the objects of a cluster at one moment, and what is needed to load them.

Objects are the JSON of the API, one `bytes` each: a snapshot of 10,000 objects fits in memory several times,
their dicts do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from kubewright.api.kubernetes_version import NEWEST_MINOR, OLDEST_MINOR


class SnapshotError(Exception):
    """A snapshot cannot be read; the message names the file, or the request, and the remedy."""


class ObjectName(NamedTuple):
    """Group, kind, namespace and name of an object; the group tells equal kinds apart."""

    group: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> ObjectName:
        """Return the name of an object."""
        group, slash, _ = str(obj.get("apiVersion") or "").rpartition("/")
        metadata = obj.get("metadata") or {}
        return cls(
            group if slash else "",
            str(obj.get("kind") or ""),
            str(metadata.get("namespace") or ""),
            str(metadata.get("name") or ""),
        )

    @property
    def full_kind(self) -> str:
        """The kind with its group: `Deployment.apps`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.full_kind} {where}"


@dataclass(slots=True, kw_only=True)
class ClusterSnapshot:
    """The objects of a cluster."""

    objects: list[bytes] = field(repr=False)
    """The objects as JSON, each with `apiVersion` and `kind`."""
    source: str = ""
    """Cluster or file, for reports."""
    kubernetes_version: str = ""
    """Version of the API server, such as `1.35`; empty if it is not known."""
    time: datetime | None = None
    """When the objects were read."""
    is_redacted: bool = False
    notes: list[str] = field(default_factory=list)
    """What is missing in the snapshot, for reports."""

    @classmethod
    def of(cls, objects: Iterable[Mapping[str, Any]], **values: Any) -> ClusterSnapshot:
        """Return a snapshot of decoded objects."""
        return cls(objects=[msgspec.json.encode(each) for each in objects], **values)

    def __len__(self) -> int:
        return len(self.objects)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Decode the objects one by one."""
        return map(_decode, self.objects)

    @property
    def supported_version(self) -> str:
        """The version of the embedded control plane that is nearest to that of the cluster."""
        text = self.kubernetes_version.removeprefix("v").split("-")[0].split("+")[0]
        major, _, rest = text.partition(".")
        minor = rest.partition(".")[0]
        if major != "1" or not minor.isdecimal():
            return f"1.{NEWEST_MINOR}"
        return f"1.{min(max(int(minor), OLDEST_MINOR), NEWEST_MINOR)}"

    def moment(self) -> datetime:
        """Return when the objects were read, or the latest time that one of them contains."""
        if self.time is not None:
            return self.time
        latest = max((each for obj in self for each in _times(obj)), default="")
        if not latest:
            return datetime.now(UTC)
        return datetime.fromisoformat(latest).astimezone(UTC)


def _times(obj: Mapping[str, Any]) -> Iterator[str]:
    """Return the times at which an object was created and changed."""
    metadata = obj.get("metadata") or {}
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    found = [metadata.get("creationTimestamp"), metadata.get("deletionTimestamp")]
    found += [each.get("time") for each in metadata.get("managedFields") or () if isinstance(each, dict)]
    found += [each.get("lastTransitionTime") for each in conditions or () if isinstance(each, dict)]
    for text in found:
        if isinstance(text, str):
            try:
                yield datetime.fromisoformat(text).astimezone(UTC).isoformat()
            except ValueError:
                continue


_decode = msgspec.json.Decoder(dict[str, Any]).decode
