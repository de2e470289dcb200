"""`PluginWatcher`: finds plug-ins by their sockets in the directory `plugins_registry` of a kubelet."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from kubewright.api.errors import APIError
from kubewright.background import run_forever
from kubewright.node.errors import RPCError
from kubewright.node.messages import Empty
from kubewright.node.plugin_registration import GET_INFO, NOTIFY, PluginInfo, RegistrationStatus
from kubewright.node.rpc import Channel

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.25
CALL_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.5
RETRY_LIMIT: Final = 122.0


class PluginWatcher:
    """Registers new plug-ins, and removes those whose socket was deleted."""

    def __init__(
        self,
        directory: Path,
        register: Mapping[str, Callable[[PluginInfo], Awaitable[None]]],
        remove: Mapping[str, Callable[[str], Awaitable[None]]],
    ) -> None:
        """`register` and `remove` have a function for each type of plug-ins; `remove` gets the name."""
        self._directory = directory
        self._register = register
        self._remove = remove
        self._plugins: dict[tuple[str, int], PluginInfo] = {}
        self._retries: dict[tuple[str, int], tuple[float, float]] = {}
        """Time and delay of the next attempt for sockets that do not respond."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch the directory."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._task = run_forever(self._watch, name=f"plug-ins in {self._directory}")

    async def stop(self) -> None:
        """Stop watching; plug-ins are registered again after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._plugins.clear()
        self._retries.clear()

    async def _watch(self) -> None:
        while True:
            found = self._sockets()
            for key in self._plugins.keys() - found.keys():
                info = self._plugins.pop(key)
                logger.info("plug-in was removed", extra={"plugin": info.name})
                if info.type in self._remove:
                    await self._remove[info.type](info.name)
            self._retries = {key: retry for key, retry in self._retries.items() if key in found}
            for key, path in found.items():
                due, delay = self._retries.get(key, (0.0, RETRY_SECONDS))
                now = asyncio.get_running_loop().time()
                if key in self._plugins or now < due:
                    continue
                added = await self._add(path, is_retry=key in self._retries)
                if added is not None:
                    self._plugins[key] = added
                else:
                    self._retries[key] = (now + delay, min(delay * 2, RETRY_LIMIT))
            await asyncio.sleep(POLL_SECONDS)

    def _sockets(self) -> dict[tuple[str, int], Path]:
        """Return the sockets by name and identity; one that is created again is another one."""
        found = {}
        for path in self._directory.glob("*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(status.st_mode) and not path.name.startswith("."):
                found[path.name, status.st_ctime_ns] = path
        return found

    async def _add(self, path: Path, *, is_retry: bool) -> PluginInfo | None:
        """Register a plug-in; return `None` if that fails, which is tried again with back-off."""
        try:
            async with Channel(path) as channel:
                info = await channel.call(GET_INFO, Empty(), timeout=CALL_SECONDS)
                status = await self._register_info(info)
                await channel.call(NOTIFY, status, timeout=CALL_SECONDS)
        except RPCError as error:
            level = logging.DEBUG if is_retry else logging.WARNING
            extra = {"socket": path.name, "error": str(error)}
            logger.log(level, "could not register plug-in, retrying", extra=extra)
            return None
        return info if status.plugin_registered else None

    async def _register_info(self, info: PluginInfo) -> RegistrationStatus:
        register = self._register.get(info.type)
        if register is None:
            return RegistrationStatus(error=f"no handler registered for plugin type: {info.type}")
        try:
            await register(info)
        except (RPCError, APIError, TimeoutError, OSError) as error:
            return RegistrationStatus(error=f"RegisterPlugin error -- plugin registration failed: {error}")
        logger.info("plug-in registered", extra={"plugin": info.name, "type": info.type})
        return RegistrationStatus(plugin_registered=True)
