"""Local ports that are forwarded to ports of pods.

A browser cannot open TCP ports, so the dashboard does: each forward is a listener on 127.0.0.1 of the machine
on which the dashboard runs, until it is stopped or the dashboard stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubewright.api.core.v1 import Pod
from kubewright.api.encoding.codec import DecodeError, loads
from kubewright.api.values.names import check_dns_subdomain

from .proxy import read_body
from .responses import RequestError, json_response

if TYPE_CHECKING:
    from aiohttp import web

    from kubewright.client import Client
    from kubewright.client.streams.port_forward import PortForward

LIMIT = 50


class PortForwards:
    """The forwards of a dashboard, and their handlers."""

    def __init__(self, client: Client, *, read_only: bool) -> None:
        self._client = client
        self._read_only = read_only
        self._forwards: dict[str, tuple[str, str, PortForward]] = {}
        self._next = 1

    async def list(self, request: Any) -> web.Response:
        """Return the forwards."""
        forwards = [
            {"id": key, "namespace": namespace, "name": name, "port": each.port, "localPort": each.local_port}
            for key, (namespace, name, each) in self._forwards.items()
        ]
        return json_response({"forwards": forwards})

    async def create(self, request: Any) -> web.Response:
        """Open a local port."""
        self._check_allowed()
        namespace, name, port = _parse(await read_body(request))
        if len(self._forwards) >= LIMIT:
            raise RequestError(429, f"{LIMIT} ports are forwarded; stop one of them first")
        await self._client.get(Pod, name, namespace=namespace)
        forward = self._client.port_forward(name, port, namespace=namespace)
        await forward.__aenter__()
        key = str(self._next)
        self._next += 1
        self._forwards[key] = (namespace, name, forward)
        return json_response({"id": key, "localPort": forward.local_port}, 201)

    async def delete(self, request: Any) -> web.Response:
        """Close the local port of `?id=`."""
        self._check_allowed()
        key = request.query.get("id", "")
        found = self._forwards.pop(key, None)
        if found is None:
            raise RequestError(404, f"port forward {key!r} does not exist")
        await found[2].__aexit__(None, None, None)
        return json_response({})

    async def stop(self) -> None:
        """Close all local ports."""
        while self._forwards:
            _, (_, _, forward) = self._forwards.popitem()
            await forward.__aexit__(None, None, None)

    def _check_allowed(self) -> None:
        if self._read_only:
            raise RequestError(403, "the dashboard is read-only; start it without --read-only")


def _parse(body: bytes) -> tuple[str, str, int]:
    try:
        data = loads(body)
    except DecodeError as error:
        raise RequestError(400, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise RequestError(400, "the body must be an object with namespace, name and port")
    namespace, name, port = data.get("namespace"), data.get("name"), data.get("port")
    if not isinstance(namespace, str) or not isinstance(name, str) or not namespace or not name:
        raise RequestError(400, "namespace and name of the pod are required")
    for field, value in (("namespace", namespace), ("name", name)):
        if check_dns_subdomain(value):
            raise RequestError(400, f"{field} {value!r} is not the name of an object")
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65535:
        raise RequestError(400, f"port must be a number from 1 to 65535, not {port!r}")
    return namespace, name, port
