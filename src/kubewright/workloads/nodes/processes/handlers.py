"""Actions of probes and lifecycle hooks: commands, HTTP requests, connections and pauses."""

from __future__ import annotations

import asyncio
import errno
import ssl
from typing import Final, NamedTuple

from kubewright.client.transport.headers import InvalidHeader, encode_head
from kubewright.workloads.nodes.containers.runtime import CollectedStreams
from kubewright.workloads.nodes.objects import Object

from .container_process import ContainerProcess, RuntimeExecError

LOCAL_HOST: Final = "127.0.0.1"
MAX_OUTPUT: Final = 10 * 1024
"""Bytes of output of a command that are reported."""
_USER_AGENT: Final = "kube-probe/1.36"


class ActionResult(NamedTuple):
    """Whether an action succeeded, and what it returned."""

    succeeded: bool
    output: str = ""


async def run_action(action: Object, process: ContainerProcess, seconds: float | None) -> ActionResult:
    """Run the action of a probe or hook; it fails after a timeout."""
    try:
        async with asyncio.timeout(seconds):
            if (command := action.get("exec")) is not None:
                return await _exec(list(command.get("command") or ()), process)
            if (request := action.get("httpGet")) is not None:
                return await _http_get(request, process.container)
            for kind in ("tcpSocket", "grpc"):
                if (target := action.get(kind)) is not None:
                    return await _connect(target, process.container)
            if (pause := action.get("sleep")) is not None:
                await asyncio.sleep(float(pause.get("seconds") or 0))
    except TimeoutError:
        return ActionResult(False, _timeout_text(action, process, seconds or 0.0))
    return ActionResult(True)


def _timeout_text(action: Object, process: ContainerProcess, seconds: float) -> str:
    if "exec" in action:
        command = " ".join((action["exec"] or {}).get("command") or ())
        return f'command timed out: "{command}" timed out after {seconds:g}s'
    if "httpGet" in action:
        url = _url(action["httpGet"], process.container)
        return f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    return "i/o timeout"


async def _exec(command: list[str], process: ContainerProcess) -> ActionResult:
    streams = CollectedStreams(MAX_OUTPUT)
    try:
        code = await process.exec(command, streams)
    except RuntimeExecError as error:
        return ActionResult(False, str(error))
    return ActionResult(code == 0, streams.output.decode(errors="replace"))


def _url(request: Object, container: Object) -> str:
    scheme = str(request.get("scheme") or "HTTP").lower()
    path = "/" + str(request.get("path") or "/").lstrip("/")
    host = request.get("host") or LOCAL_HOST
    return f"{scheme}://{host}:{_port(request.get('port'), container)}{path}"


async def _http_get(request: Object, container: Object) -> ActionResult:
    host, port = request.get("host") or LOCAL_HOST, _port(request.get("port"), container)
    url = _url(request, container)
    context: ssl.SSLContext | None = None
    if url.startswith("https:"):
        # Kubelets do not verify the certificates of probes.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {each["name"]: each.get("value") or "" for each in request.get("httpHeaders") or ()}
    given = {name.lower() for name in headers}
    defaults = {"Host": f"{host}:{port}", "User-Agent": _USER_AGENT, "Accept": "*/*", "Connection": "close"}
    headers.update({name: value for name, value in defaults.items() if name.lower() not in given})
    path = "/" + str(request.get("path") or "/").lstrip("/")
    try:
        head = encode_head(f"GET {path} HTTP/1.1", headers.items(), escape=False)
    except InvalidHeader as error:
        return ActionResult(False, f'Get "{url}": net/http: {error}')
    writer: asyncio.StreamWriter | None = None
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(head)
        await writer.drain()
        first = (await reader.readline()).decode(errors="replace").split()
    except OSError as error:
        return ActionResult(False, f'Get "{url}": {_connection_error(host, port, error)}')
    finally:
        if writer is not None:
            writer.close()
    if len(first) < 2 or not first[1].isdecimal():
        return ActionResult(False, f'Get "{url}": EOF')
    status = int(first[1])
    if 200 <= status < 400:
        return ActionResult(True)
    return ActionResult(False, f"HTTP probe failed with statuscode: {status}")


async def _connect(target: Object, container: Object) -> ActionResult:
    host, port = target.get("host") or LOCAL_HOST, _port(target.get("port"), container)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return ActionResult(False, _connection_error(host, port, error))
    writer.close()
    return ActionResult(True)


def _connection_error(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.ECONNREFUSED:
        return f"dial tcp {host}:{port}: connect: connection refused"
    return f"dial tcp {host}:{port}: {error.strerror or error}"


def _port(value: object, container: Object) -> int:
    """Return a port number; names are those of the container's ports."""
    if isinstance(value, int) or str(value).isdecimal():
        return int(str(value))
    for port in container.get("ports") or ():
        if port.get("name") == value:
            return int(port["containerPort"])
    return 0
