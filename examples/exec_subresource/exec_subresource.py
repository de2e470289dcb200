"""Machines with a console: subresources with the streams of `kubectl exec`, `port-forward` and `proxy`.

`machines/NAME/console` runs commands of the machine, over WebSocket (v5, v4) and SPDY. `machines/NAME/log`
streams text, `machines/NAME/portforward` and `machines/NAME/web` connect to its ports.

kubectl has no command for the streams of custom resources, so `machines/NAME/kubectl` serves the part of the
core group that `kubectl exec` needs, with the machine as a pod:

    kubectl --server=.../machines/web/kubectl exec -it web -- sh
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator

from kubewright import APIServerApp, Column, CustomResource, Spec, resource
from kubewright.api import NotFound
from kubewright.apiserver import (
    ByteStream,
    HTTPResponse,
    ProcessStreams,
    SubresourceRequest,
    process_response,
)
from kubewright.apiserver.streams.responses import ProcessOptions
from kubewright.extension import ExecSession

GROUP = "machines.example.com"
AGE = Column("Age", ".metadata.creationTimestamp", "date")


class MachineSpec(Spec):
    """The machine."""

    image: str = "debian:13"
    """The disk image."""
    address: str = "127.0.0.1"
    """Where the ports of the machine listen."""
    files: dict[str, str] = {}
    """Files of the machine: name to content."""


@resource(group=GROUP, version="v1", columns=(Column("Image", ".spec.image"), AGE))
class Machine(CustomResource[MachineSpec, None]):
    """A virtual machine."""


app = APIServerApp("machines")
app.add(Machine)


@app.exec(Machine, "console", requires="connect")
async def console(machine: Machine, session: ExecSession) -> int:
    """Run a command, or without one a shell that reads commands. Users need the verb `connect`."""
    if session.command and session.command != ["sh"]:
        return await run(machine, session, session.command)
    prompt = f"{machine.name}$ " if session.tty else ""
    await session.write(prompt)
    code = 0
    async for line in session.lines():
        match shlex.split(line):
            case ["exit", *status]:
                return int(status[0]) if status else code
            case []:
                pass
            case command:
                code = await run(machine, session, command)
        await session.write(prompt)
    return code


async def run(machine: Machine, session: ExecSession, command: list[str]) -> int:
    """Run one command and return its exit code."""
    match command:
        case ["hostname"]:
            await session.write(f"{machine.name}\n")
        case ["echo", *words]:
            await session.write(" ".join(words) + "\n")
        case ["ls"]:
            await session.write("".join(f"{name}\n" for name in sorted(machine.spec.files)))
        case ["cat"]:
            while data := await session.read():
                await session.write(data)
        case ["cat", name] if name in machine.spec.files:
            await session.write(machine.spec.files[name])
        case ["cat", name]:
            await session.write_error(f"cat: {name}: No such file or directory\n")
            return 1
        case ["stty", "size"]:
            size = await session.terminal_size()
            await session.write(f"{size.rows} {size.columns}\n" if size else "no terminal\n")
        case [name, *_]:
            await session.write_error(f"{name}: command not found\n")
            return 127
    return 0


@app.subresource(Machine, "log", streams=True)
async def log(machine: Machine) -> AsyncIterator[str]:
    async def lines() -> AsyncIterator[str]:
        for step in ("loading", "starting", "ready"):
            yield f"{machine.name}: {step} {machine.spec.image}\n"

    return lines()


@app.port_forward(Machine)
async def forward(machine: Machine, port: int, connection: ByteStream) -> None:
    reader, writer = await asyncio.open_connection(machine.spec.address, port)

    async def upload() -> None:
        while data := await connection.receive():
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    uploading = asyncio.create_task(upload())
    try:
        while data := await reader.read(65536):
            await connection.send(data)
    finally:
        uploading.cancel()
        writer.close()


@app.proxy(Machine, "web")
def web(machine: Machine) -> str:
    port = (machine.metadata.annotations or {}).get("machines.example.com/port", "80")
    return f"http://{machine.spec.address}:{port}"


@app.subresource(Machine, "kubectl", verbs=("create", "get"), streams=True, requires="connect")
async def kubectl(machine: Machine, request: SubresourceRequest) -> HTTPResponse | dict[str, object]:
    """Serve discovery, the pod and its exec subresource, as `kubectl exec` requests them."""
    match request.path.split("/"):
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
        case ["api", "v1"]:
            pods = {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ["get"],
            }
            return {"kind": "APIResourceList", "groupVersion": "v1", "resources": [pods]}
        case ["api", "v1", "namespaces", machine.metadata.namespace, "pods", machine.name, *rest]:
            if rest == ["exec"]:
                options = ProcessOptions.of(request.request.query)

                async def serve(streams: ProcessStreams) -> int:
                    return await console(machine, ExecSession(streams, options))

                return process_response(request.request, serve, options=options)
            return {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"name": machine.name, "namespace": machine.metadata.namespace},
                "spec": {"containers": [{"name": "console", "image": machine.spec.image}]},
                "status": {"phase": "Running"},
            }
    raise NotFound("the server could not find the requested resource")
