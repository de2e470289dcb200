"""Health and readiness: `/healthz` and `/readyz`, with named checks.

A check is a function, plain or async, that raises if it fails. `/readyz?verbose` lists the checks,
`/readyz/<name>` runs one, and `?exclude=<name>` skips one. Reasons are logged, not returned, because the
endpoints are not authenticated.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

Check = Callable[[], Awaitable[object] | object]


class Probes:
    """Health and readiness checks of a process; `probe_server` serves them."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {"healthz": {}, "readyz": {}}

    def add_health_check(self, name: str, check: Check) -> None:
        """Add a check to `/healthz`: the kubelet restarts the container while it fails."""
        self._checks["healthz"][name] = check

    def add_ready_check(self, name: str, check: Check) -> None:
        """Add a check to `/readyz`: the pod is not ready while it fails."""
        self._checks["readyz"][name] = check

    async def handle(
        self, path: str, *, verbose: bool = False, exclude: frozenset[str] = frozenset()
    ) -> tuple[int, str]:
        """Run the checks of a path and return status and text."""
        endpoint, _, single = path.strip("/").partition("/")
        checks = self._checks.get(endpoint)
        if checks is None:
            return 404, "404 page not found\n"
        if single:
            if single not in checks and single != "ping":
                return 404, f"no check named {single}\n"
            checks = {single: checks[single]} if single in checks else {}
        lines, failed = ["[+]ping ok"], False
        for name, check in checks.items():
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
                continue
            try:
                result = check()
                if inspect.isawaitable(result):
                    await result
                lines.append(f"[+]{name} ok")
            except Exception as error:
                failed = True
                logger.warning(
                    "health check failed", extra={"endpoint": endpoint, "check": name, "error": str(error)}
                )
                lines.append(f"[-]{name} failed: reason withheld")
        if failed:
            return 500, "\n".join([*lines, f"{endpoint} check failed", ""])
        return 200, "\n".join([*lines, f"{endpoint} check passed", ""]) if verbose else "ok"
