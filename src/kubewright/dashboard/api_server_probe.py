"""`ApiServerProbe`: whether the API server of the cluster responds, while a page is open.

A page that shows a table has watches through `/k8s/`, which stay silent if the API server is frozen or
unreachable, exactly as if nothing changed. The probe asks for the version again and again, so that pages
can say that they show old data.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.errors import APIError
from kubewright.api.values.times import wall_time
from kubewright.background import run_forever
from kubewright.client.errors import ConnectionFailed, CredentialsError

if TYPE_CHECKING:
    from kubewright.client import Client

INTERVAL_SECONDS: Final = 1.5
TIMEOUT_SECONDS: Final = 2.0


class ApiServerProbe:
    """Asks the API server for a response while someone holds it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._users = 0
        self._task: asyncio.Task[None] | None = None
        self._error = ""
        self._since: float | None = None

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Probe within a block."""
        self._users += 1
        if self._task is None:
            self._task = run_forever(self._run, name="dashboard probe", required=False)
        try:
            yield
        finally:
            self._users -= 1

    async def stop(self) -> None:
        """Stop to probe."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def describe(self) -> dict[str, Any]:
        """Return the error of the last probe, empty if it succeeded, and since when probes fail."""
        return {"error": self._error, "since": self._since}

    async def _run(self) -> None:
        while self._users:
            error = await self._probe()
            if error and not self._error:
                self._since = wall_time() * 1000
            elif not error:
                self._since = None
            self._error = error
            await asyncio.sleep(INTERVAL_SECONDS)
        self._task = None

    async def _probe(self) -> str:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._client.version()
        except TimeoutError:
            return f"the API server did not respond within {TIMEOUT_SECONDS:g} s"
        except APIError as error:
            return "" if error.status_code < 500 else error.message
        except (ConnectionFailed, CredentialsError) as error:
            return str(error)
        return ""
