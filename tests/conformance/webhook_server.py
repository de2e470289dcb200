"""HTTPS server for the admission and conversion webhooks of cases.

A handler of a case is served at `/<case id>/<handler>`. Its settings:

| setting | effect |
|---|---|
| `allowed`, `status`, `patch`, `warnings`, `auditAnnotations` | the response of an AdmissionReview |
| `unless: labels` | no patch for an object with these labels |
| `delay: seconds` | time before the response |
| `http: code` | this status code instead of a review |
| `raw: text` | this body instead of a review |
| `convert: {version: [{move: [from, to]} or {set: [path, value]}]}` | a ConversionReview |
| `fail: message` | a ConversionReview that fails |
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import ssl
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.conformance.paths import assign, locate

from kubewright.tls.certificates import CertificateAuthority

Settings = dict[str, Any]


class WebhookServer:
    """Serves the handlers of all cases of a run; started when the first case needs it."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        """`host` is the address at which the server under test reaches this one."""
        self.handlers: dict[str, dict[str, Settings]] = {}
        self.calls: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        self.ca = ""
        self._host = host
        self._port = 0
        self._runner: web.AppRunner | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Listen, unless it does already."""
        async with self._starting:
            if self._runner is not None:
                return
            authority = CertificateAuthority.create("conformance-webhooks")
            application = web.Application(client_max_size=1 << 26)
            application.router.add_post("/{case}/{handler}", self._handle)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(
                runner, self._host, 0, ssl_context=_server_context(authority, self._host), backlog=256
            )
            await site.start()
            self._port = runner.addresses[0][1]
            self.ca = base64.b64encode(authority.certificate).decode()
            self._runner = runner

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def url(self, case_id: str) -> str:
        """Prefix of the URLs of a case's handlers."""
        return f"https://{self._host}:{self._port}/{case_id}"

    async def _handle(self, request: web.Request) -> web.Response:
        case_id, name = request.match_info["case"], request.match_info["handler"]
        settings = self.handlers.get(case_id, {}).get(name)
        try:
            review = json.loads(await request.read())
        except ValueError:
            review = None
        if settings is None or not isinstance(review, dict):
            return web.Response(status=404, text="{}")
        self.calls[case_id, name].append(review)
        if settings.get("delay"):
            await asyncio.sleep(settings["delay"])
        if settings.get("http"):
            return web.Response(
                status=settings["http"], text="webhook failure", content_type="application/json"
            )
        if settings.get("raw") is not None:
            return web.Response(text=settings["raw"], content_type="application/json")
        is_conversion = "convert" in settings or "fail" in settings
        response = (_convert if is_conversion else _admit)(settings, review["request"])
        response["uid"] = review["request"]["uid"]
        document = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return web.json_response(document)


def _admit(settings: Settings, request: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {"allowed": settings.get("allowed", True)}
    for key in ("status", "warnings", "auditAnnotations"):
        if settings.get(key) is not None:
            response[key] = settings[key]
    metadata = (request.get("object") or {}).get("metadata") or {}
    unless = settings.get("unless") or {}
    is_patched = unless and unless.items() <= (metadata.get("labels") or {}).items()
    if settings.get("patch") is not None and not is_patched:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(settings["patch"]).encode()).decode()
    return response


def _convert(settings: Settings, request: dict[str, Any]) -> dict[str, Any]:
    if settings.get("fail"):
        return {"result": {"status": "Failure", "message": settings["fail"]}}
    desired = request["desiredAPIVersion"]
    version = desired.split("/")[-1]
    converted = []
    for original in request["objects"]:
        changed = copy.deepcopy(original)
        changed["apiVersion"] = desired
        if original["apiVersion"].split("/")[-1] != version:
            for rule in settings["convert"].get(version) or []:
                _apply_rule(changed, rule)
        converted.append(changed)
    return {"convertedObjects": converted, "result": {"status": "Success"}}


def _apply_rule(document: dict[str, Any], rule: dict[str, Any]) -> None:
    if "move" in rule:
        source, target = rule["move"]
        for container, key, value in locate(document, source):
            del container[key]
            assign(document, target, value)
    if "set" in rule:
        assign(document, *rule["set"])


def _server_context(authority: CertificateAuthority, host: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        authority.issue(host, hosts=(host,), server=True).write(certificate, key)
        context.load_cert_chain(certificate, key)
    return context
