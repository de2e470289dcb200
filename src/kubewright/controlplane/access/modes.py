"""Authorization modes: one or several authorizers in a row, the first decision counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubewright.apiserver.authorization import NO_OPINION, AuthorizationAttributes, AuthorizationResult

MODES: Final = ("node", "rbac", "webhook", "always-allow", "always-deny")


class AlwaysDeny:
    """Allows nothing."""

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Return no opinion, which denies the request unless another authorizer allows it."""
        return NO_OPINION


def parse_modes(modes: str | Iterable[str]) -> tuple[str, ...]:
    """Return the modes of a comma-separated text or of several names; raise `ValueError`.

    The names of kube-apiserver are accepted, too: `Node`, `RBAC`, `Webhook`, `AlwaysAllow`, `AlwaysDeny`.
    """
    names = [name.strip() for name in (modes.split(",") if isinstance(modes, str) else modes)]
    known = {mode.replace("-", ""): mode for mode in MODES}
    found = []
    for name in names:
        mode = known.get(name.replace("-", "").lower())
        if mode is None:
            raise ValueError(f'unknown authorization mode "{name}"; known are {", ".join(MODES)}')
        if mode in found:
            raise ValueError(f'authorization mode "{mode}" is listed twice')
        found.append(mode)
    if not found:
        raise ValueError("at least one authorization mode is required")
    return tuple(found)
