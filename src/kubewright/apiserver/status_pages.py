"""Text pages about the running server: `/statusz` and `/flagz`. Their format is not stable."""

from __future__ import annotations

import platform
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .encoding import negotiation
from .http.messages import HTTPRequest, HTTPResponse, text

if TYPE_CHECKING:
    from .server import APIServer

_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)
_FLAGS = (
    "request_timeout",
    "body_limit",
    "max_in_flight",
    "max_mutating_in_flight",
    "watch_timeout",
    "bookmark_interval",
    "compaction_interval",
)
"""Attributes of the server on `/flagz`."""


class StatusPages:
    """The pages of one server."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._started = datetime.now(UTC)
        self._started_at = time.monotonic()

    async def statusz(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/statusz`: start time, versions and paths."""
        negotiation.require(request, "text/plain")
        version = self._server.version
        lines = [
            "kube-apiserver statusz",
            _WARNING,
            "",
            f"Started: {self._started:%a %b %d %H:%M:%S UTC %Y}",
            f"Up: {time.monotonic() - self._started_at:.0f} s",
            f"Python version: {platform.python_version()} ({sys.implementation.name})",
            f"Binary version: {version.git_version}",
            f"Emulation version: {version.major}.{version.minor}",
            f"Paths: {' '.join(self._server.paths)}",
        ]
        return text(200, "\n".join(lines) + "\n")

    async def flagz(self, request: HTTPRequest) -> HTTPResponse:
        """Serve `/flagz`: the settings of the server and the flags of its command line."""
        negotiation.require(request, "text/plain")
        values = {name.replace("_", "-"): str(getattr(self._server, name)) for name in _FLAGS}
        flags = [f"{name}={value}" for name, value in sorted({**values, **self._server.flags}.items())]
        return text(200, "\n".join(["kube-apiserver flagz", _WARNING, "", *flags]) + "\n")
