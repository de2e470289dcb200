"""The registration of plug-ins with a kubelet (`pluginregistration`): how it finds CSI drivers.

A kubelet watches the directory `plugins_registry`. For a new socket it calls `GetInfo` of the plug-in,
connects to the endpoint in the response, and reports the result with `NotifyRegistrationStatus`.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Final

from .messages import Empty, Message
from .rpc import Method, Service, UnixServer

logger = logging.getLogger(__name__)

CSI_PLUGIN: Final = "CSIPlugin"
DEVICE_PLUGIN: Final = "DevicePlugin"
REGISTRY: Final = "plugins_registry"
"""Name of the directory of the sockets, below that of the kubelet."""


class PluginInfo(Message):
    """What a plug-in is, and where it listens."""

    type: Annotated[str, 1] = ""
    name: Annotated[str, 2] = ""
    endpoint: Annotated[str, 3] = ""
    supported_versions: Annotated[list[str], 4] = []


class RegistrationStatus(Message):
    """Whether the kubelet has accepted a plug-in."""

    plugin_registered: Annotated[bool, 1] = False
    error: Annotated[str, 2] = ""


GET_INFO: Final = Method("GetInfo", Empty, PluginInfo)
NOTIFY: Final = Method("NotifyRegistrationStatus", RegistrationStatus, Empty)
REGISTRATION: Final = Service("pluginregistration.Registration", GET_INFO, NOTIFY)


class PluginRegistrar:
    """The socket in the registry of a kubelet. The kubelet reads it again after its restart."""

    def __init__(self, directory: Path, info: PluginInfo) -> None:
        """`directory` is that of the kubelet, such as `/var/lib/kubelet`."""
        self._info = info
        self._server = UnixServer(directory / REGISTRY / f"{info.name}-reg.sock")
        self._server.add(REGISTRATION, self)
        self.registered = asyncio.Event()
        """Set while the kubelet accepts the plug-in."""

    async def start(self) -> None:
        """Offer the plug-in to the kubelet."""
        await self._server.start()

    async def stop(self) -> None:
        """Remove the socket; the kubelet removes the plug-in."""
        await self._server.stop()

    async def get_info(self, request: Empty) -> PluginInfo:
        """Describe the plug-in."""
        return self._info

    async def notify_registration_status(self, request: RegistrationStatus) -> Empty:
        """Log the result of the registration."""
        if request.plugin_registered:
            self.registered.set()
            logger.info("registered plug-in with kubelet", extra={"plugin": self._info.name})
        else:
            self.registered.clear()
            logger.error(
                "kubelet rejected plug-in", extra={"plugin": self._info.name, "error": request.error}
            )
        return Empty()
