"""Reload of configuration files: `ConfigReloader` applies a file again when its content changes.

    changed file -> load and check -> replace the configuration -> close what it replaced, after a delay
                         |
                         +-> invalid: logged and counted, the previous configuration stays in use

A file is checked every second by its size, times and inode, so that files which are replaced by a rename or
by a symbolic link (mounted ConfigMaps and Secrets) are found, too. Invalid content is not loaded again until
it changes; other failures, such as a KMS plug-in that does not respond, are repeated with increasing delays.

Metrics have the names of kube-apiserver: `automatic_reloads_total`, `automatic_reload_last_timestamp_seconds`
and `last_config_info`, after a prefix such as `apiserver_encryption_config_controller_`.

The configuration files of a control plane that are loaded again when they change. As in kube-apiserver,
authentication and authorization configurations always are, an encryption configuration if that is requested.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.background import run_forever
from kubewright.controlplane.access import read_authorization_settings
from kubewright.controlplane.replicas.identity_lease import server_identity

from .config_file import ConfigFileError, naming_file

if TYPE_CHECKING:
    from kubewright.controlplane.plane import ControlPlane

logger = logging.getLogger("kubewright.controlplane")

INTERVAL: Final = 1.0
"""Seconds between checks of a file."""
_MAX_DELAY: Final = 60.0

Close = Callable[[], Awaitable[None]]
Apply = Callable[[], Awaitable[Close | None]]
"""Loads the file and replaces the configuration; returns the function that closes the previous one.

Raises `ConfigFileError` for invalid content, another `Exception` if a later attempt can succeed.
"""


def sha256_label(data: bytes) -> str:
    """Return a hash in the form of the labels of kube-apiserver."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class ReloadMetrics(Collector):
    """Results of the reloads of one configuration."""

    def __init__(self, configuration: str, server_id: str) -> None:
        """`configuration`: encryption, authentication or authorization; `server_id`: name of the server."""
        self._configuration = configuration
        self._prefix = f"apiserver_{configuration}_config_controller_"
        self._server = sha256_label(server_id.encode())
        self.counts: dict[str, int] = {}
        """Reloads by status, `success` or `failure`."""
        self._times: dict[str, float] = {}
        self.hash = ""
        """Hash of the content in use."""

    def record(self, status: str) -> None:
        """Count a reload."""
        self.counts[status] = self.counts.get(status, 0) + 1
        self._times[status] = time.time()

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        labels, what = ("status", "apiserver_id_hash"), f"{self._configuration} configuration"
        total = CounterMetricFamily(
            f"{self._prefix}automatic_reloads",
            f"Total number of automatic reloads of {what} split by status and apiserver identity.",
            labels=labels,
        )
        last = GaugeMetricFamily(
            f"{self._prefix}automatic_reload_last_timestamp_seconds",
            f"Timestamp of the last automatic reload of {what} split by status and apiserver identity.",
            labels=labels,
        )
        for status, count in self.counts.items():
            total.add_metric((status, self._server), count)
            last.add_metric((status, self._server), self._times[status])
        info = GaugeMetricFamily(
            f"{self._prefix}last_config_info",
            f"Information about the last applied {what} with hash as label, split by apiserver identity.",
            labels=("apiserver_id_hash", "hash"),
        )
        if self.hash:
            info.add_metric((self._server, self.hash), 1)
        return total, last, info


class ConfigReloader:
    """Applies one file again when its content changes, until it is stopped."""

    def __init__(
        self,
        path: str | Path,
        apply: Apply,
        metrics: ReloadMetrics,
        *,
        interval: float | None = None,
        grace: float = 30.0,
    ) -> None:
        """`grace`: seconds after which what a reload replaced is closed, for the requests that use it."""
        self.path = Path(path)
        self.metrics = metrics
        self._apply = apply
        self._interval = INTERVAL if interval is None else interval
        self._grace = grace
        self._seen: tuple[int, ...] = ()
        self._error = ""
        self._delay = 0.0
        self._retry_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._closing: dict[asyncio.Task[None], Close] = {}

    async def start(self) -> None:
        """Check the file regularly; its present content is in use already."""
        self._seen = self._signature()
        with suppress(OSError):
            self.metrics.hash = sha256_label(self.path.read_bytes())
        self._task = run_forever(self._run, name=f"reload {self.path.name}")

    async def stop(self) -> None:
        """Stop checking, and close what reloads have replaced."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        closing, self._closing = self._closing, {}
        for task, close in closing.items():
            task.cancel()
            await asyncio.wait({task})
            await close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.check()

    async def check(self) -> bool:
        """Apply the file if its content has changed; return whether it has been applied."""
        async with self._lock:
            return await self._check()

    async def _check(self) -> bool:
        loop, seen = asyncio.get_running_loop(), self._signature()
        is_due = self._retry_at is not None and loop.time() >= self._retry_at
        if seen == self._seen and not is_due:
            return False
        self._seen = seen
        try:
            content = sha256_label(self.path.read_bytes())
            if content == self.metrics.hash:
                self._succeed()
                return False
            replaced = await self._apply()
        except ConfigFileError as error:
            self._retry_at = None
            self._fail(str(error))
            return False
        except Exception as error:
            self._delay = min(2 * self._delay or self._interval, _MAX_DELAY)
            self._retry_at = loop.time() + self._delay
            self._fail(f"{type(error).__name__}: {error}")
            return False
        self._succeed()
        self.metrics.hash = content
        self.metrics.record("success")
        logger.info("reloaded configuration", extra={"file": str(self.path)})
        if replaced is not None:
            self._close_later(replaced)
        return True

    def _signature(self) -> tuple[int, ...]:
        """Return what changes with the file; empty if it does not exist."""
        try:
            status = os.stat(self.path)
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

    def _succeed(self) -> None:
        self._error, self._delay, self._retry_at = "", 0.0, None

    def _fail(self, error: str) -> None:
        self.metrics.record("failure")
        if error != self._error:
            self._error = error
            logger.error(
                "cannot reload configuration, the previous one stays in use",
                extra={"file": str(self.path), "error": error},
            )

    def _close_later(self, close: Close) -> None:
        async def wait_and_close() -> None:
            await asyncio.sleep(self._grace)
            self._closing.pop(task, None)
            await close()

        task = asyncio.create_task(wait_and_close(), name=f"close the previous {self.path.name}")
        self._closing[task] = close


ENCRYPTION_CHECK = "poststarthook/start-encryption-provider-config-automatic-reload"
"""Health check of kube-apiserver that the reload of the encryption configuration has started."""


def config_reloaders(plane: ControlPlane) -> dict[str, ConfigReloader]:
    """Return the reloaders of a control plane, by configuration; their metrics are registered."""

    async def reload_encryption() -> Close:
        from kubewright.controlplane.encryption import EncryptedStorage

        assert isinstance(plane.storage, EncryptedStorage)
        return await plane.storage.reload(_file(plane, "encryption"))

    async def reload_authentication() -> None:
        path = _file(plane, "authentication")
        authentication = plane.authentication
        authentication.use_external_tokens(
            await authentication.external_tokens.reload(path, plane.service_account_issuers)
        )

    async def reload_authorization() -> Close:
        path = _file(plane, "authorization")
        settings = read_authorization_settings((), path)
        with naming_file(path):
            plane.authorization.settings.check_reload(settings)
        previous = plane.authorization.settings
        plane.authorization.use(settings)
        return previous.close

    reloads = {
        "encryption": reload_encryption,
        "authentication": reload_authentication,
        "authorization": reload_authorization,
    }
    found = {}
    for name, apply in reloads.items():
        if plane.reloaded_files[name] is not None:
            metrics = ReloadMetrics(name, server_identity(plane.port))
            plane.server.metrics.registry.register(metrics)
            found[name] = ConfigReloader(_file(plane, name), apply, metrics)
    if "encryption" in found:
        from kubewright.controlplane.encryption import EncryptedStorage

        plane.server.health.add(ENCRYPTION_CHECK, lambda: None)
        assert isinstance(plane.storage, EncryptedStorage)
        plane.storage.load_changes = found["encryption"].check
    return found


def _file(plane: ControlPlane, name: str) -> Path:
    path = plane.reloaded_files[name]
    assert path is not None
    return Path(path)
