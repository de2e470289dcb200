"""`KubeletServer`: the paths of the kubelet API, for all simulated nodes.

| path | response |
|---|---|
| /containerLogs/NAMESPACE/POD/CONTAINER | log, with the options of `kubectl logs` |
| /exec, /attach, /portForward | WebSocket (v5, v4) or SPDY/3.1 |
| /podProxy/NAMESPACE/POD/PORT/... | HTTP request to a port of a pod; real kubelets do not have this path |
| /pods, /runningpods/ | pods of the node |
| /stats/summary, /metrics/resource | usage |
| /configz, /healthz, /metrics | configuration, `ok`, metrics |
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from aiohttp import web

from kubewright.api.encoding import codec
from kubewright.api.errors import APIError
from kubewright.api.values.times import parse_time
from kubewright.apiserver.http.connection import WebSocketAdapter
from kubewright.apiserver.http.messages import HTTPRequest, HTTPResponse, Query
from kubewright.apiserver.http.upgrade import run_tunnel
from kubewright.apiserver.streams import channels
from kubewright.apiserver.streams.contract import ByteStream, ProcessStreams
from kubewright.apiserver.streams.responses import ProcessOptions, ports_response, process_response
from kubewright.cache.stores.store import ObjectKey
from kubewright.tls.certificates import CertificateAuthority, server_context
from kubewright.workloads.nodes.containers.container_log import LogOptions
from kubewright.workloads.nodes.containers.container_state import ContainerState
from kubewright.workloads.nodes.containers.runtime import CollectedStreams, ContainerRun, ExecRequest
from kubewright.workloads.nodes.objects import Object
from kubewright.workloads.nodes.registration.node_state import NodeState

from . import statistics
from .authentication import KubeletAuthenticator
from .pod_proxy import send_to_pod

if TYPE_CHECKING:
    from kubewright.client.client import Client
    from kubewright.workloads.nodes.pods.pod_worker import PodWorker
    from kubewright.workloads.nodes.simulation import SimulatedNodes

ANONYMOUS_PATHS: Final = ("/healthz",)
MAX_RUN_OUTPUT: Final = 16 * 1024 * 1024
"""Bytes of the output of a command that `/run` returns, as container runtimes limit it."""


class KubeletError(Exception):
    """A response with an error status and a plain text message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubeletServer:
    """Serves the kubelet API on a socket."""

    def __init__(self, nodes: SimulatedNodes, client: Client) -> None:
        self._nodes = nodes
        self._authenticator = KubeletAuthenticator(client)
        self._server: web.Server | None = None
        self._sockets: asyncio.Server | None = None

    async def serve(self, listening: socket.socket) -> None:
        """Start to accept connections."""
        authority = CertificateAuthority.create("kubewright-kubelet-ca")
        hosts = ("localhost", "127.0.0.1", *(f"{name}.localhost" for name in list(self._nodes.nodes)[:100]))
        pair = authority.issue("system:node:kubewright", groups=("system:nodes",), hosts=hosts, server=True)
        await self._authenticator.load_client_authority()
        context = server_context(pair, request_certificates=True)
        self._server = web.Server(self._handle, access_log=None, auto_decompress=False)
        self._sockets = await asyncio.get_running_loop().create_server(
            self._server, sock=listening, ssl=context, backlog=128
        )

    async def stop(self) -> None:
        """Close all connections."""
        if self._sockets is not None:
            self._sockets.close()
        if self._server is not None:
            await self._server.shutdown(0.05)

    # Requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            node = self._node(request)
            if request.path not in ANONYMOUS_PATHS:
                await self._authorize(request, node)
            return await self._route(request, node)
        except KubeletError as error:
            return web.Response(status=error.status, text=str(error))
        except APIError as error:
            return web.Response(status=error.code, text=error.message)

    def _node(self, request: web.BaseRequest) -> NodeState | None:
        host = request.host.rpartition(":")[0].removesuffix(".localhost")
        found = self._nodes.nodes.get(host)
        if found is None and len(self._nodes.nodes) == 1:
            found = next(iter(self._nodes.nodes.values()))
        if found is not None and found.failed:
            transport = request.transport
            if transport is not None:
                transport.abort()
            raise KubeletError(503, "the kubelet has stopped")
        return found

    async def _authorize(self, request: web.BaseRequest, node: NodeState | None) -> None:
        tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
        certificate = tls.getpeercert(True) if tls is not None else None
        identity = await self._authenticator.identify(certificate, request.headers.get("Authorization", ""))
        if identity is None:
            raise KubeletError(401, "Unauthorized")
        user, groups = identity
        name = node.name if node is not None else ""
        if not await self._authenticator.is_allowed(user, groups, request.method, name):
            raise KubeletError(
                403,
                f"Forbidden (user={user}, verb={request.method.lower()}, resource=nodes, "
                "subresource(s)=[proxy])",
            )

    async def _route(self, request: web.BaseRequest, node: NodeState | None) -> web.StreamResponse:
        path, query = request.path, Query(request.query_string)
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts:
            case ["containerLogs", namespace, pod, container]:
                return await self._logs(request, query, namespace, pod, container)
            case ["exec" | "attach" as what, namespace, pod, *rest] if rest:
                return await self._process(request, query, what, namespace, pod, rest[-1])
            case ["run", namespace, pod, *rest] if rest:
                return await self._run(query, namespace, pod, rest[-1])
            case ["portForward", namespace, pod, *_]:
                return await self._port_forward(request, query, namespace, pod)
            case ["podProxy", namespace, pod, port, *_] if port.isdecimal():
                return await self._proxy(request, namespace, pod, int(port))
            case ["healthz"]:
                return web.Response(text="ok")
            case ["pods"] | ["runningpods"]:
                return self._pods(node)
            case ["stats", "summary"]:
                return _json(await statistics.summary(self._nodes, _required(node)))
            case ["metrics", "resource"]:
                return web.Response(text=await statistics.resource_metrics(self._nodes, _required(node)))
            case ["metrics", *_]:
                return web.Response(text=f"kubelet_running_pods {len(_required(node).pods)}\n")
            case ["configz"]:
                return _json({"kubeletconfig": _configuration(_required(node))})
        raise KubeletError(404, "404 page not found")

    def _pods(self, node: NodeState | None) -> web.Response:
        found = [worker.pod for worker in self._nodes.workers.values() if node is None or worker.node is node]
        return _json({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": found})

    def _find(self, namespace: str, pod: str, container: str) -> tuple[PodWorker, ContainerState]:
        worker = self._nodes.workers.get(ObjectKey(namespace, pod))
        if worker is None:
            raise KubeletError(404, f'pod "{pod}" not found')
        found = worker.find(container)
        if found is None:
            raise KubeletError(404, f'container "{container}" in pod "{pod}" is not available')
        return worker, found

    # Logs

    async def _logs(
        self, request: web.BaseRequest, query: Query, namespace: str, pod: str, container: str
    ) -> web.StreamResponse:
        _, state = self._find(namespace, pod, container)
        previous = query.is_true("previous")
        run = state.previous_run if previous else state.run
        if run is None:
            if previous:
                text = f'previous terminated container "{container}" in pod "{pod}" not found'
            else:
                reason = (state.state.get("waiting") or {}).get("reason") or ""
                text = f'container "{container}" in pod "{pod}" is waiting to start: {reason}'
            raise KubeletError(400, text)
        log = self._nodes.runtime.log(run)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        lines: AsyncIterator[bytes] = log.read(self._log_options(query))
        with contextlib.suppress(ConnectionError):
            async for data in lines:
                await response.write(data)
            await response.write_eof()
        return response

    def _log_options(self, query: Query) -> LogOptions:
        since = parse_time(query.get("sinceTime")) if query.get("sinceTime") else None
        if query.get("sinceSeconds"):
            since = self._nodes.clock.date() - timedelta(seconds=int(query.get("sinceSeconds")))
        return LogOptions(
            follow=query.is_true("follow"),
            tail_lines=int(query.get("tailLines")) if query.get("tailLines") else None,
            since=since,
            timestamps=query.is_true("timestamps"),
            limit_bytes=int(query.get("limitBytes")) if query.get("limitBytes") else None,
            stream=query.get("stream") or "All",
        )

    # Processes

    async def _process(
        self, request: web.BaseRequest, query: Query, what: str, namespace: str, pod: str, container: str
    ) -> web.StreamResponse:
        worker, state = self._find(namespace, pod, container)
        run = self._running(state, pod)
        runtime = self._nodes.runtime
        flags = {name: _flag(query, name) for name in ("stdin", "stdout", "stderr", "tty")}
        if not any((flags["stdin"], flags["stdout"], flags["stderr"])):
            raise KubeletError(400, "you must specify at least 1 of stdin, stdout, stderr")
        options = ProcessOptions(tuple(query.all("command")), container, **flags)

        async def handler(streams: ProcessStreams) -> int:
            if what == "attach":
                return await runtime.attach(run, streams)
            return await runtime.exec(run, ExecRequest(query.all("command"), worker.pod, container, streams))

        response = process_response(_received(request), handler, options=options, failure=channels.FAILURE)
        return await _upgrade(request, response)

    def _running(self, state: ContainerState, pod: str) -> ContainerRun:
        if state.run is None or not state.is_running:
            raise KubeletError(500, f'container not found ("{state.name}")')
        return state.run

    async def _run(self, query: Query, namespace: str, pod: str, container: str) -> web.Response:
        worker, state = self._find(namespace, pod, container)
        run = self._running(state, pod)
        streams = CollectedStreams(MAX_RUN_OUTPUT)
        command = query.all("cmd") or query.all("command")
        code = await self._nodes.runtime.exec(run, ExecRequest(command, worker.pod, container, streams))
        return web.Response(status=200 if code == 0 else 500, body=bytes(streams.output))

    # Ports

    async def _proxy(self, request: web.BaseRequest, namespace: str, pod: str, port: int) -> web.Response:
        worker = self._nodes.workers.get(ObjectKey(namespace, pod))
        if worker is None or worker.phase != "Running":
            raise KubeletError(503, f'pod "{pod}" is not running')
        path = "/" + "/".join(request.rel_url.raw_path.split("/")[5:])
        query = request.rel_url.raw_query_string
        headers = [
            (name, value) for name, value in request.headers.items() if name.lower() != "authorization"
        ]
        try:
            response = await send_to_pod(
                self._nodes.runtime,
                worker.pod,
                port,
                request.method,
                f"{path}?{query}" if query else path,
                headers,
                await request.read(),
            )
        except (OSError, TimeoutError) as error:
            raise KubeletError(503, f"error trying to reach service: {error}") from None
        return web.Response(status=response.status, headers=response.headers, body=response.body)

    async def _port_forward(
        self, request: web.BaseRequest, query: Query, namespace: str, pod: str
    ) -> web.StreamResponse:
        worker = self._nodes.workers.get(ObjectKey(namespace, pod))
        if worker is None:
            raise KubeletError(404, f'pod "{pod}" not found')
        if worker.phase != "Running":
            raise KubeletError(
                400, f"unable to forward port because pod is not running. Current status={worker.phase}"
            )

        async def opener(port: int, stream: ByteStream) -> None:
            await self._nodes.runtime.port_forward(worker.pod, port, stream)

        parameter = "ports" if "ports" in query else "port"
        return await _upgrade(request, ports_response(_received(request), opener, parameter=parameter))


def _required(node: NodeState | None) -> NodeState:
    if node is None:
        raise KubeletError(404, "the host name does not name a simulated node")
    return node


def _flag(query: Query, name: str) -> bool:
    """Read a flag: kubelets name them `input`, `output` and `error`, with the value 1."""
    legacy = {"stdin": "input", "stdout": "output", "stderr": "error"}.get(name, name)
    return query.is_true(name) or query.is_true(legacy)


def _json(body: Object) -> web.Response:
    return web.Response(body=codec.encode(body), content_type="application/json")


def _configuration(node: NodeState) -> Object:
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "maxPods": node.allocatable.get("pods", 110),
        "podCIDR": node.cidr,
        "nodeStatusUpdateFrequency": "10s",
        "nodeLeaseDurationSeconds": 40,
        "eventRecordQPS": 50,
        "containerLogMaxSize": "10Mi",
        "containerLogMaxFiles": 5,
    }


def _received(request: web.BaseRequest) -> HTTPRequest:
    return HTTPRequest(request.method, request.path, query=request.query_string, headers=request.headers)


async def _upgrade(request: web.BaseRequest, response: HTTPResponse) -> web.StreamResponse:
    """Serve the client of a command or a port over a WebSocket or SPDY."""
    if response.websocket is None:
        return await run_tunnel(request.protocol, response)
    socket = web.WebSocketResponse(protocols=response.protocols, max_msg_size=16 * 1024 * 1024)
    await socket.prepare(request)
    try:
        await response.websocket(WebSocketAdapter(socket))
    finally:
        await socket.close()
    return socket
