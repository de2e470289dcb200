"""Users: name, groups, uid and extra attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubewright.client.transport.headers import replace_surrogates

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user; `extra` has further attributes of the authenticator.

    Characters that cannot be encoded, such as that of a claim `"\\ud800"`, become U+FFFD: every part of a
    user is compared, audited and forwarded as the same text.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Replace what cannot be encoded."""
        if not (
            self.name.isascii()
            and self.uid.isascii()
            and all(map(str.isascii, self.groups))
            and (not self.extra or _is_ascii(self.extra))
        ):
            change = object.__setattr__
            change(self, "name", replace_surrogates(self.name))
            change(self, "uid", replace_surrogates(self.uid))
            change(self, "groups", tuple(map(replace_surrogates, self.groups)))
            extra: dict[str, tuple[str, ...]] = {}
            for key, values in self.extra.items():
                key = replace_surrogates(key)
                extra[key] = (*extra.get(key, ()), *map(replace_surrogates, values))
            change(self, "extra", extra)

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


def _is_ascii(extra: Mapping[str, tuple[str, ...]]) -> bool:
    return all(key.isascii() and all(map(str.isascii, values)) for key, values in extra.items())


def anonymous() -> User:
    """Return `system:anonymous`."""
    return User(ANONYMOUS, (UNAUTHENTICATED,))


SYSTEM = User("system:apiserver", (MASTERS, AUTHENTICATED))
"""The server itself, for its own requests."""
