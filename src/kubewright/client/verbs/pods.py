"""Verbs on running pods: log, exec, attach, port_forward, copy_to, copy_from.

    async for line in client.log("web-0", follow=True): ...
    result = await client.exec("web-0", ["date"])               # stdout, stderr, exit_code
    async with client.exec("web-0", ["sh"], stdin=True) as shell:
        await shell.write(b"echo hello; exit 3\\n")
        async for stream, data in shell: ...

Permissions: get on `pods/log`; create and get on `pods/exec`, `pods/attach` and `pods/portforward`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from multidict import CIMultiDict

from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured
from kubewright.api.values.times import format_time
from kubewright.client.rest.request import APIRequest
from kubewright.client.transport.interface import ResponseStream, WebSocketConnection

from .base import BaseClient, ResourceLocation

if TYPE_CHECKING:
    from kubewright.client.streams.exec import ExecCommand
    from kubewright.client.streams.pod_log import PodLog
    from kubewright.client.streams.port_forward import PortForward

PodRef = MetaObject | Unstructured | str
"""A pod, or the name of a pod."""


class PodVerbs(BaseClient):
    """Verbs on running pods."""

    def log(
        self,
        pod: PodRef,
        *,
        namespace: str | None = None,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since: float | datetime | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> PodLog:
        """Read the log of a container: `await` returns the text, `async for` yields lines.

        `tail` is the number of last lines; `since` is a time, or seconds before now.
        """
        from kubewright.client.streams.pod_log import PodLog

        async def start() -> ResponseStream:
            location = await self._locate_pod(pod, namespace)
            query: dict[str, Any] = {
                "container": container,
                "follow": follow or None,
                "previous": previous or None,
                "tailLines": tail,
                "sinceTime": format_time(since) if isinstance(since, datetime) else None,
                "sinceSeconds": max(1, round(since)) if isinstance(since, int | float) else None,
                "timestamps": timestamps or None,
                "limitBytes": limit_bytes,
            }
            request = self.build_request(
                "get", "GET", location, subresource="log", query=query, accept="text/plain, */*"
            )
            return await self.open_stream(request)

        return PodLog(start)

    def exec(
        self,
        pod: PodRef,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str = "",
        input: bytes | None = None,
        stdin: bool = False,
        tty: bool = False,
        check: bool = False,
    ) -> ExecCommand:
        """Run a command in a container: `await` returns its result, `async with` opens a session.

        `input` is written to its standard input; with `check`, an exit code other than 0 raises `ExecError`.
        """
        from kubewright.client.streams.exec import ExecCommand

        if isinstance(command, str) or not command:
            raise TypeError('command must be a list of arguments: ["sh", "-c", "echo hello"]')

        async def connect() -> WebSocketConnection:
            location = await self._locate_pod(pod, namespace)
            arguments = [("command", argument) for argument in command]
            has_stdin = stdin or input is not None
            return await self.open_channels(location, "exec", container, has_stdin, tty, arguments)

        return ExecCommand(connect, input, check, f"{command[0]!r} in pod {_pod_name(pod)}")

    def attach(
        self,
        pod: PodRef,
        *,
        namespace: str | None = None,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> ExecCommand:
        """Attach to the main process of a container."""
        from kubewright.client.streams.exec import ExecCommand

        async def connect() -> WebSocketConnection:
            location = await self._locate_pod(pod, namespace)
            return await self.open_channels(location, "attach", container, stdin, tty, [])

        return ExecCommand(connect, None, False, f"attach to pod {_pod_name(pod)}")

    def port_forward(
        self,
        pod: PodRef,
        port: int,
        *,
        namespace: str | None = None,
        local_port: int = 0,
        address: str = "127.0.0.1",
    ) -> PortForward:
        """Forward connections to a local port to a port of a pod; an async context manager.

        With `local_port` 0 a free port is chosen; the result has it as `local_port`.
        """
        from kubewright.client.streams.exec import PROTOCOLS
        from kubewright.client.streams.port_forward import PortForward

        async def connect() -> WebSocketConnection:
            location = await self._locate_pod(pod, namespace)
            return await self._open_websocket(
                location, "portforward", [("ports", str(port))], (PROTOCOLS[1],)
            )

        return PortForward(connect, port, local_port, address)

    async def copy_to(
        self,
        pod: PodRef,
        source: str | Path,
        destination: str,
        *,
        namespace: str | None = None,
        container: str = "",
    ) -> None:
        """Copy a local file or directory into a container as `destination`; the container needs `tar`."""
        from kubewright.client.streams.tar_archive import pack

        directory, _, name = destination.rstrip("/").rpartition("/")
        archive = await asyncio.to_thread(pack, Path(source), name)
        command = ["tar", "-xmf", "-", "-C", directory or "/"]
        await self.exec(pod, command, namespace=namespace, container=container, input=archive, check=True)

    async def copy_from(
        self,
        pod: PodRef,
        source: str,
        destination: str | Path,
        *,
        namespace: str | None = None,
        container: str = "",
    ) -> None:
        """Copy a file or directory out of a container as `destination`; the container needs `tar`.

        Nothing is written outside `destination`, whatever the archive contains.
        """
        from kubewright.client.streams.tar_archive import unpack

        directory, _, name = source.rstrip("/").rpartition("/")
        command = ["tar", "-cf", "-", "-C", directory or "/", name or "."]
        result = await self.exec(pod, command, namespace=namespace, container=container, check=True)
        await asyncio.to_thread(unpack, result.stdout, name or ".", Path(destination))

    async def _locate_pod(self, pod: PodRef, namespace: str | None) -> ResourceLocation:
        if isinstance(pod, str):
            return await self.locate("pods", pod, namespace)
        return await self.locate(pod, None, namespace)

    async def open_channels(
        self,
        location: ResourceLocation,
        subresource: str,
        container: str,
        stdin: bool,
        tty: bool,
        arguments: list[tuple[str, str]],
    ) -> WebSocketConnection:
        """Open the channels of a command on a subresource."""
        from kubewright.client.streams.exec import PROTOCOLS

        options = [*arguments, ("stdout", "true"), ("stderr", "false" if tty else "true")]
        options += [(name, "true") for name, enabled in (("stdin", stdin), ("tty", tty)) if enabled]
        if container:
            options.append(("container", container))
        return await self._open_websocket(location, subresource, options, PROTOCOLS)

    async def _open_websocket(
        self,
        location: ResourceLocation,
        subresource: str,
        options: list[tuple[str, str]],
        protocols: tuple[str, ...],
    ) -> WebSocketConnection:
        request = APIRequest(
            "connect",
            "GET",
            location.path(subresource),
            urlencode(options),
            CIMultiDict(self.options.headers),
            timeout=self.options.timeout,
            resource=location.resource.gvr.group_resource,
            name=location.name,
            namespace=location.namespace,
            subresource=subresource,
        )
        return await self.rest.open_websocket(request, protocols)


def _pod_name(pod: PodRef) -> str:
    return pod if isinstance(pod, str) else pod.metadata.name or ""
