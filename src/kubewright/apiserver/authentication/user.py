"""Users: name, groups, uid and extra attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user; `extra` has further attributes of the authenticator."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_group(self, group: str) -> User:
        """Return the user with a further group."""
        if group in self.groups:
            return self
        return User(self.name, (*self.groups, group), self.uid, self.extra)

    def to_info(self) -> dict[str, Any]:
        """Return the `userInfo` object of admission and token reviews."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> User:
        """Return the user of a `userInfo` object."""
        extra = {key: tuple(values) for key, values in (info.get("extra") or {}).items()}
        return cls(info.get("username") or "", tuple(info.get("groups") or ()), info.get("uid") or "", extra)


def anonymous() -> User:
    """Return `system:anonymous`."""
    return User(ANONYMOUS, (UNAUTHENTICATED,))


SYSTEM = User("system:apiserver", (MASTERS, AUTHENTICATED))
"""The server itself, for its own requests."""
