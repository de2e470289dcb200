"""Health and readiness: `/healthz` and `/readyz`, with named checks.

A check is a function, plain or async, that raises when something is wrong. `/readyz?verbose` lists them;
`/readyz/<name>` asks for one; `?exclude=<name>` leaves one out. Reasons are logged, not shown to strangers.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

Check = Callable[[], Any]


class Probes:
    """The checks of one process. Serve it with `HTTPServer`."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {"healthz": {}, "readyz": {}}

    def add_health_check(self, name: str, check: Check) -> None:
        """The process must be restarted while this fails."""
        self._checks["healthz"][name] = check

    def add_ready_check(self, name: str, check: Check) -> None:
        """The process must not be called while this fails."""
        self._checks["readyz"][name] = check

    async def answer(
        self, path: str, *, verbose: bool = False, exclude: frozenset[str] = frozenset()
    ) -> tuple[int, str]:
        """Status and text for a path."""
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
                logger.warning("%s: check %s failed: %s", endpoint, name, error)
                lines.append(f"[-]{name} failed: reason withheld")
        if failed:
            return 500, "\n".join([*lines, f"{endpoint} check failed", ""])
        return 200, "\n".join([*lines, f"{endpoint} check passed", ""]) if verbose else "ok"
