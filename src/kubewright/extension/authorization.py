"""Authorizer that calls a function of an `APIServerApp`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from kubewright.apiserver.authorization import (
    ALLOWED,
    NO_OPINION,
    AuthorizationAttributes,
    AuthorizationResult,
    Decision,
)

AuthorizeFunction = Callable[[AuthorizationAttributes], "bool | str | Awaitable[bool | str | None] | None"]
"""Returns true to allow a request, false or a reason to deny it, `None` to leave it to the cluster."""


class FunctionAuthorizer:
    """Asks a function before the cluster; requests of `system:masters` and health checks are not passed to
    it."""

    def __init__(self, function: AuthorizeFunction) -> None:
        self._function = function

    async def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationResult:
        """Return the decision of the function."""
        decided = self._function(attributes)
        if inspect.isawaitable(decided):
            decided = await decided
        if decided is None:
            return NO_OPINION
        if decided is True:
            return ALLOWED
        return Decision.DENY, decided if isinstance(decided, str) else ""
