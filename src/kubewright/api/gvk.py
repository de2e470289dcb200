"""Names of kinds and resources: group, version, kind, resource.

A *kind* is the type of an object (`Deployment` in `apps/v1`), a *resource* is the name under which it is
served (`deployments` in `apps/v1`). The core group has an empty name, so its `apiVersion` is `v1`. All types
here are immutable, hashable and compared by value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .unstructured import Unstructured

_VERSION: Final = re.compile(r"v([1-9][0-9]{0,18})(?:(alpha|beta)([1-9][0-9]{0,18}))?", re.ASCII)


def _unstructured() -> type[Unstructured]:
    from .unstructured import Unstructured

    return Unstructured


class GroupVersion(NamedTuple):
    """A group and version; `str()` returns the `apiVersion`."""

    group: str
    version: str

    @classmethod
    def parse(cls, api_version: str) -> GroupVersion:
        """Parse an `apiVersion`: `v1`, `apps/v1`. More than one slash is an error; the parts may be empty."""
        group, _, version = api_version.rpartition("/")
        if "/" in group:
            raise ValueError(f"unexpected GroupVersion string: {api_version}")
        return cls(group, version)

    def kind(self, kind: str) -> GroupVersionKind:
        """Return a kind of this group version."""
        return GroupVersionKind(self.group, self.version, kind)

    def resource(self, resource: str) -> GroupVersionResource:
        """Return a resource of this group version."""
        return GroupVersionResource(self.group, self.version, resource)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupKind(NamedTuple):
    """A kind without a version; `str()` returns `Deployment.apps`."""

    group: str
    kind: str

    @classmethod
    def parse(cls, text: str) -> GroupKind:
        """Parse `Kind.group`; without a dot the group is the core group."""
        kind, _, group = text.partition(".")
        return cls(group, kind)

    def with_version(self, version: str) -> GroupVersionKind:
        """Add a version."""
        return GroupVersionKind(self.group, version, self.kind)

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupResource(NamedTuple):
    """A resource without a version; `str()` returns `deployments.apps`."""

    group: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> GroupResource:
        """Parse `resource.group`; without a dot the group is the core group."""
        resource, _, group = text.partition(".")
        return cls(group, resource)

    @property
    def object_class(self) -> type[Unstructured]:
        """The class that clients read objects as."""
        return _unstructured()

    def with_version(self, version: str) -> GroupVersionResource:
        """Add a version."""
        return GroupVersionResource(self.group, version, self.resource)

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionKind(NamedTuple):
    """A kind with group and version: the `apiVersion` and `kind` of an object."""

    group: str
    version: str
    kind: str

    @classmethod
    def from_api_version(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Create it from the `apiVersion` and `kind` of an object."""
        group, version = GroupVersion.parse(api_version)
        return cls(group, version, kind)

    @property
    def group_version(self) -> GroupVersion:
        """The group and version."""
        return GroupVersion(self.group, self.version)

    @property
    def group_kind(self) -> GroupKind:
        """The kind without its version."""
        return GroupKind(self.group, self.kind)

    @property
    def object_class(self) -> type[Unstructured]:
        """The class that clients read objects as, if the kind is named and not given as a class."""
        return _unstructured()

    @property
    def api_version(self) -> str:
        """The value of the `apiVersion` field."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def list_kind(self) -> GroupVersionKind:
        """Return the kind of lists of this kind."""
        return GroupVersionKind(self.group, self.version, self.kind + "List")

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


class GroupVersionResource(NamedTuple):
    """A resource with group and version."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> GroupVersion:
        """The group and version."""
        return GroupVersion(self.group, self.version)

    @property
    def object_class(self) -> type[Unstructured]:
        """The class that clients read objects as."""
        return _unstructured()

    @property
    def group_resource(self) -> GroupResource:
        """The resource without its version."""
        return GroupResource(self.group, self.resource)

    @property
    def path(self) -> str:
        """URL path of the group version: `/api/v1` or `/apis/<group>/<version>`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return f"{self.group_version}, Resource={self.resource}"


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key that puts preferred versions first: v2, v1, v1beta2, v1beta1, v1alpha1, others."""
    parts = _VERSION.fullmatch(version)
    if parts is None:
        return (3, 0, 0, version)
    major, stability, minor = parts.groups()
    return ({"beta": 1, "alpha": 2}.get(stability, 0), -int(major), -int(minor or 0), "")
