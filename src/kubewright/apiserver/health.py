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
        self._results: dict[tuple[str, str], list[int]] = {}
        """Check and endpoint to the last result (1 or 0), successes and failures."""

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
                problem = await self._check(name, endpoint)
                if problem is None:
                    return text(200, "ok")
                return text(500, f"internal server error: {problem}\n")
            return await self._all(endpoint, request)

        return handle

    async def _check(self, name: str, endpoint: str) -> Exception | None:
        problem = await _run(self._checks[endpoint][name])
        result = self._results.setdefault((name, endpoint[1:]), [0, 0, 0])
        result[0] = int(problem is None)
        result[1 if problem is None else 2] += 1
        return problem

    async def slis(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/metrics/slis`: the results of health checks, for service level indicators."""
        lines = [
            "# HELP kubernetes_healthcheck [STABLE] Result of the last run of a health check.",
            "# TYPE kubernetes_healthcheck gauge",
        ]
        totals = [
            "# HELP kubernetes_healthchecks_total [STABLE] Number of runs of a health check.",
            "# TYPE kubernetes_healthchecks_total counter",
        ]
        for (name, kind), (last, succeeded, failed) in sorted(self._results.items()):
            lines.append(f'kubernetes_healthcheck{{name="{name}",type="{kind}"}} {last}')
            for status, count in (("error", failed), ("success", succeeded)):
                if count:
                    labels = f'name="{name}",status="{status}",type="{kind}"'
                    totals.append(f"kubernetes_healthchecks_total{{{labels}}} {count}")
        return HTTPResponse(
            200, ("\n".join(lines + totals) + "\n").encode(), content_type="text/plain; version=0.0.4"
        )

    async def _all(self, endpoint: str, request: HTTPRequest) -> HTTPResponse:
        excluded = set(request.query.all("exclude"))
        lines, failed = [], []
        for name in list(self._checks[endpoint]):
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = await self._check(name, endpoint)
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
