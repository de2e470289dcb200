"""Responses to clients that run a command or forward ports, over WebSocket or SPDY.

The query has the options of `kubectl exec` (`command`, `container`, `stdin`, `stdout`, `stderr`, `tty`) and
of `kubectl port-forward` (`ports`). A request without an upgrade is rejected with 400.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubewright.api.errors import APIError, BadRequest
from kubewright.apiserver.http.messages import (
    HTTPRequest,
    HTTPResponse,
    Query,
    Tunnel,
    TunnelHandler,
    WebSocket,
)

from .channels import (
    PORT_CHANNEL_PROTOCOLS,
    PORT_PROTOCOL,
    PORT_TUNNEL_PROTOCOL,
    PROCESS_PROTOCOLS,
    SPDY_PROCESS_PROTOCOLS,
    PortOpener,
    ProcessHandler,
    WebSocketTunnel,
    run_ports_on_spdy,
    run_ports_on_websocket,
    run_process_on_spdy,
    run_process_on_websocket,
)

FAILURE: Final = "error executing command"


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """What a client requests of a command."""

    command: tuple[str, ...] = ()
    container: str = ""
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @classmethod
    def of(cls, query: Query) -> ProcessOptions:
        """Parse the query of a request; raises `BadRequest` if it requests no stream."""
        flags = {name: query.is_true(name) for name in ("stdin", "stdout", "stderr", "tty")}
        if not any(flags[name] for name in ("stdin", "stdout", "stderr")):
            raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
        return cls(tuple(query.all("command")), query.get("container"), **flags)

    @property
    def streams(self) -> frozenset[str]:
        """The streams that a SPDY client opens."""
        names = {"error"} | {name for name in ("stdin", "stdout") if getattr(self, name)}
        if self.tty:
            names.add("resize")
        elif self.stderr:
            names.add("stderr")
        return frozenset(names)


def process_response(
    request: HTTPRequest,
    handler: ProcessHandler,
    *,
    options: ProcessOptions | None = None,
    failure: str = FAILURE,
) -> HTTPResponse:
    """Return the response that runs a command for the client; the handler returns the exit code.

    The handler is cancelled when the client disconnects. An exception becomes the failure of the command,
    whose message begins with `failure`.
    """
    chosen = options if options is not None else ProcessOptions.of(request.query)
    if is_websocket(request):

        async def talk(socket: WebSocket) -> None:
            await run_process_on_websocket(
                socket, handler, tty=chosen.tty, stdin=chosen.stdin, failure=failure
            )

        return HTTPResponse(websocket=talk, protocols=PROCESS_PROTOCOLS)

    async def carry(tunnel: Tunnel) -> None:
        await run_process_on_spdy(tunnel, handler, expected=chosen.streams, tty=chosen.tty, failure=failure)

    return spdy_response(request, SPDY_PROCESS_PROTOCOLS, carry)


def ports_response(request: HTTPRequest, opener: PortOpener, *, parameter: str = "ports") -> HTTPResponse:
    """Return the response that forwards ports; `opener(port, connection)` serves one connection.

    `parameter` is the query parameter with the ports of clients that do not send them later.
    """
    if is_websocket(request):
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        if PORT_TUNNEL_PROTOCOL in offered:

            async def carry_in_messages(socket: WebSocket) -> None:
                await run_ports_on_spdy(WebSocketTunnel(socket), opener)

            return HTTPResponse(websocket=carry_in_messages, protocols=(PORT_TUNNEL_PROTOCOL,))
        ports = [_port(text) for value in request.query.all(parameter) for text in value.split(",")]
        if not ports:
            raise BadRequest(f'query parameter "{parameter}" is required')

        async def talk(socket: WebSocket) -> None:
            await run_ports_on_websocket(socket, ports, opener)

        return HTTPResponse(websocket=talk, protocols=PORT_CHANNEL_PROTOCOLS)

    async def carry(tunnel: Tunnel) -> None:
        await run_ports_on_spdy(tunnel, opener)

    return spdy_response(request, (PORT_PROTOCOL,), carry)


def spdy_response(request: HTTPRequest, protocols: tuple[str, ...], carry: TunnelHandler) -> HTTPResponse:
    """Return the 101 of a SPDY connection; raise if the request is not an upgrade to SPDY/3.1."""
    if request.headers.get("Upgrade", "").lower() != "spdy/3.1":
        raise BadRequest("Upgrade request required")
    offered = [
        each.strip()
        for name, value in request.headers.items()
        if name.lower() == "x-stream-protocol-version"
        for each in value.split(",")
    ]
    protocol = next((each for each in protocols if each in offered), "")
    if offered and not protocol:
        text = f"unable to upgrade: unable to negotiate protocol: client supports {offered}, "
        raise APIError(f"{text}server accepts {list(protocols)}", code=403, reason="Forbidden")
    headers: dict[str, str | list[str]] = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    if protocol:
        headers["X-Stream-Protocol-Version"] = protocol
    return HTTPResponse(101, headers=headers, tunnel=carry)


def is_websocket(request: HTTPRequest) -> bool:
    """Whether a request asks for a WebSocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise BadRequest(f"invalid port {text!r}")
    return int(text)
