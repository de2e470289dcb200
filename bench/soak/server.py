"""Requests to the server under load, and webhooks that it calls."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from bench._process import Server
from bench.soak.kinds import GROUP, Object
from kubewright.tls.certificates import CertificateAuthority, server_context

HOOKS = "/apis/admissionregistration.k8s.io/v1"
TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class API:
    """Sends requests; any status is accepted."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def ask(self, method: str, path: str, body: Any = None, *, kind: str = "") -> tuple[int, Any]:
        """Send a request; return the status and the object of the response."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": TYPES.get(kind, "application/json")}
        async with self.server.session.request(
            method, self.server.url + path, data=data, headers=headers
        ) as response:
            text = await response.read()
            whole = json.loads(text) if response.content_type == "application/json" else {"message": text}
            return response.status, whole

    async def must(self, method: str, path: str, body: Any = None, *, kind: str = "") -> Any:
        """Send a request that must succeed; return the object of the response."""
        status, response = await self.ask(method, path, body, kind=kind)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {response.get('message')}")
        return response

    async def watch(self, path: str) -> AsyncIterator[Object]:
        """Events of a watch until it ends."""
        async with self.server.session.get(f"{self.server.url}{path}") as response:
            if response.status != 200:
                raise RuntimeError(f"GET {path}: {response.status} {(await response.read())[:300]!r}")
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)


class Webhooks:
    """Mutates gears, denies those with the note `forbidden`, and allows all others."""

    def __init__(self) -> None:
        authority = CertificateAuthority.create("soak-webhooks")
        self._pair = authority.issue("webhooks", hosts=("127.0.0.1",), server=True)
        self._bundle = base64.b64encode(authority.certificate).decode()
        self._port = 0

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Listen on a free port."""
        app = web.Application()
        app.router.add_post("/{name}", self._review)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(self._pair)).start()
            self._port = runner.addresses[0][1]
            yield
        finally:
            await runner.cleanup()

    async def _review(self, request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        response: Object = {"uid": asked["uid"], "allowed": True}
        spec = (asked.get("object") or {}).get("spec") or {}
        if request.match_info["name"] == "mutate":
            number = str(spec.get("teeth"))
            annotations = (asked["object"]["metadata"].get("annotations") or {}) | {"teeth": number}
            patch = [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        elif request.match_info["name"] == "validate" and spec.get("note") == "forbidden":
            response |= {"allowed": False, "status": {"code": 403, "message": "not this one"}}
        return web.json_response(
            {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        )

    def configuration(self, kind: str, name: str, *, path: str, resource: str = "gears") -> Object:
        """A configuration with one webhook."""
        rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": [resource]}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": f"{name}.{GROUP}",
                    "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{self._port}/{path}",
                        "caBundle": self._bundle,
                    },
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "timeoutSeconds": 30,
                }
            ],
        }
