"""Health checks: `/healthz`, `/livez`, `/readyz`, all checks or one by name.

A check is a plain or async function that raises if it fails. The error is logged, not part of the response.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from .http.messages import HTTPRequest, HTTPResponse, page_not_found, text

logger = logging.getLogger("kubewright.apiserver")

Check = Callable[[], Any]
ENDPOINTS = ("/healthz", "/livez", "/readyz")


class HealthChecks:
    """The checks of a server, by endpoint."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {endpoint: {} for endpoint in ENDPOINTS}

    def add(self, name: str, check: Check, endpoints: tuple[str, ...] = ENDPOINTS) -> None:
        """Add a check to these endpoints."""
        for endpoint in endpoints:
            self._checks[endpoint][name] = check

    def remove(self, name: str) -> None:
        """Remove a check everywhere."""
        for checks in self._checks.values():
            checks.pop(name, None)

    async def run(self, name: str) -> Exception | None:
        """Run one check of `/readyz`; return its error. Raises `KeyError` if there is no such check."""
        return await _run(self._checks["/readyz"][name])

    def handler(self, endpoint: str) -> Callable[[HTTPRequest], Awaitable[HTTPResponse]]:
        """Return the handler of an endpoint and of the paths of its checks."""

        async def handle(request: HTTPRequest) -> HTTPResponse:
            checks = self._checks[endpoint]
            name = request.path.removeprefix(endpoint)
            if name:
                name = name.removeprefix("/")
                if name not in checks:
                    return page_not_found()
                problem = await _run(checks[name])
                if problem is None:
                    return text(200, "ok")
                return text(500, f"internal server error: {problem}\n")
            return await self._all(endpoint, request)

        return handle

    async def _all(self, endpoint: str, request: HTTPRequest) -> HTTPResponse:
        excluded = set(request.query.all("exclude"))
        lines, failed = [], []
        for name, check in self._checks[endpoint].items():
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = await _run(check)
            if problem is None:
                lines.append(f"[+]{name} ok")
            else:
                logger.warning(
                    "health check failed",
                    extra={"endpoint": endpoint[1:], "check": name, "error": str(problem)},
                )
                lines.append(f"[-]{name} failed: reason withheld")
                failed.append(name)
        if excluded:
            listed = ", ".join(f'"{name}"' for name in sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
        report = "\n".join(lines) + "\n"
        if failed:
            return text(500, f"{report}{endpoint[1:]} check failed\n")
        if "verbose" in request.query:
            return text(200, f"{report}{endpoint[1:]} check passed\n")
        return text(200, "ok")


async def _run(check: Check) -> Exception | None:
    try:
        result = check()
        if inspect.isawaitable(result):
            await result
    except Exception as error:
        return error
    return None
