"""One run of one case: namespace, setup, steps, cleanup."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any

import aiohttp
from tests.conformance.cases import Case, build_crd, is_recorded
from tests.conformance.compare import Record
from tests.conformance.conditions import is_met
from tests.conformance.http_client import HTTPClient, Response, Watch
from tests.conformance.normalise import Normaliser
from tests.conformance.paths import lookup
from tests.conformance.request_format import CONTENT_TYPES, RequestFormat, encode, request_of, watch_of
from tests.conformance.response_format import ResponseFormat
from tests.conformance.variables import substitute
from tests.conformance.webhook_server import WebhookServer

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FIRST, _FOLLOWING = "bcdfghjkmnpqrstvwxz", "bcdfghjkmnpqrstvwxz2456789"
_SUBRESOURCE = re.compile(r"/(status|scale|token|eviction|binding|finalize|approval)(/[^/]*)?$|reviews/")


class CaseError(Exception):
    """The case cannot continue: its setup failed, or it is malformed."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Settings of a run."""

    user: str | None = None
    """User name of the kubeconfig."""
    max_wait: float = 60.0
    """Upper bound of the timeouts of steps, in seconds."""
    with_sleeps: bool = True
    """Whether `sleep` steps sleep; they are for controllers that do not report their progress."""


class CaseRun:
    """Executes a case; `records` are the normalised responses."""

    def __init__(self, client: HTTPClient, hooks: WebhookServer, case: Case, options: RunOptions) -> None:
        self._client, self._hooks, self._case, self._options = client, hooks, case, options
        source = random.SystemRandom()
        self.id = source.choice(_FIRST) + "".join(source.choices(_FOLLOWING, k=8))
        self.namespace = f"conf-{self.id}"
        self.records: list[Record] = []
        self._group = f"{self.id}.example.com"
        self._normaliser = Normaliser(self.id, options.user)
        self._format = ResponseFormat(
            self._normaliser, managed_fields=bool(case.document.get("managedFields"))
        )
        self._variables: dict[str, Any] = {
            "id": self.id,
            "ns": self.namespace,
            "group": self._group,
            "core": f"/api/v1/namespaces/{self.namespace}",
            "apps": f"/apis/apps/v1/namespaces/{self.namespace}",
            "cr": f"/apis/{self._group}/v1/namespaces/{self.namespace}",
            "crds": CRDS,
        }
        self._created: dict[str, bool] = {}
        """Paths of created objects, and whether they have finalizers."""
        self._watches: dict[str, tuple[Watch, str]] = {}

    async def run(self) -> str | None:
        """Run the case; return the error that ended it early, if any."""
        document = self._case.document
        try:
            await self._prepare()
            for index, step in enumerate(document.get("setup") or []):
                await self._step(step, index, recorded=False)
            for index, step in enumerate(document["steps"]):
                await self._step(step, index, recorded=is_recorded(step))
        except CaseError as error:
            return self._normaliser.message(str(error))
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            for watch, _ in self._watches.values():
                await watch.stop()
        return None

    async def _prepare(self) -> None:
        document = self._case.document
        if document.get("webhooks"):
            await self._hooks.start()
            self._variables |= {"webhook": self._hooks.url(self.id), "ca": self._hooks.ca}
            self._normaliser.add_literal(self._hooks.ca, "{ca}")
            self._hooks.handlers[self.id] = substitute(document["webhooks"], self._variables)
        self._variables |= substitute(document.get("vars") or {}, self._variables)
        if re.search(r"\$\((ns|core|apps|cr)\)", json.dumps(document)):
            labels = substitute(document.get("namespaceLabels") or {}, self._variables)
            metadata = {"name": self.namespace, "labels": labels}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            response = await self._send(encode("POST", "/api/v1/namespaces", {"body": body}))
            if response.status != 201:
                raise CaseError(_failure("the namespace was not created", response))

    async def _send(self, request: RequestFormat) -> Response:
        response = await self._client.request(
            request.method,
            request.target,
            request.headers,
            request.body,
            anonymous=request.anonymous,
            timeout=request.timeout,
        )
        is_write = request.method in ("POST", "PUT", "PATCH") and "dryRun" not in request.target
        if is_write and response.status in (200, 201):
            self._track(request.method, request.target.partition("?")[0], response.json())
        return response

    def _track(self, method: str, path: str, document: Any) -> None:
        """Remember a created object for the cleanup."""
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if not isinstance(metadata, dict) or not metadata.get("name"):
            return
        if method == "POST":
            path = f"{path.rstrip('/')}/{metadata['name']}"
        if not _SUBRESOURCE.search(path):
            self._created[path] = bool(self._created.get(path) or metadata.get("finalizers"))

    async def _step(self, source: dict[str, Any], index: int, *, recorded: bool) -> None:
        repeat = source.get("repeat", 1)
        source = {key: value for key, value in source.items() if key != "repeat"}
        step = substitute(source, self._variables)
        if "sleep" in step:
            if self._options.with_sleeps:
                await asyncio.sleep(step["sleep"])
        elif "crd" in step:
            await self._install_crd(build_crd(step["crd"], self._group))
        elif "watch" in step:
            request = watch_of(step)
            watch = await self._client.watch(request.target, request.headers, anonymous=request.anonymous)
            self._watches[step["watch"]] = (watch, f"WATCH {request.target}")
        elif "collect" in step:
            await self._collect(step, index)
        elif "calls" in step:
            await self._webhook_calls(step, index)
        elif "do" in step:
            for number in range(repeat):
                if repeat > 1:
                    self._variables["i"] = str(number)
                    step = substitute(source, self._variables)
                request = request_of(step)
                response = await self._send(request)
                if not recorded and not step.get("may_fail") and response.status >= 400:
                    raise CaseError(_failure(request.line, response))
            self._conclude(step, index, request, response, recorded)
        elif "wait" in step:
            request = request_of(step)
            response, met = await self._wait(request, step)
            if met:
                self._conclude(step, index, request, response, recorded)
            elif recorded:
                body = self._format.shape(step, response.json())
                self._record(step, index, request.line, timeout=True, status=response.status, body=body)
            else:
                raise CaseError(_failure(f"{request.line}: not met: {step['until']}", response))
        else:
            raise CaseError(f"step {index} has no action")

    def _conclude(
        self, step: dict[str, Any], index: int, request: RequestFormat, response: Response, recorded: bool
    ) -> None:
        """Capture variables from a response and record it."""
        document = response.json()
        for name, path in (step.get("capture") or {}).items():
            value = lookup(document, path) if document is not None else None
            if value is not None:
                self._variables[name] = value
        self._learn_generated_name(step, request, document)
        if recorded:
            self._record(step, index, request.line, **self._format.response(step, response))

    def _learn_generated_name(self, step: dict[str, Any], request: RequestFormat, document: Any) -> None:
        prefix = lookup(step.get("body"), "metadata.generateName")
        if not prefix or request.method != "POST" or not isinstance(document, dict):
            return
        owner = document.get("details" if document.get("kind") == "Status" else "metadata")
        name = owner.get("name") if isinstance(owner, dict) else None
        if name and name.startswith(prefix) and name != prefix:
            suffix = f"{{random{len(name) - len(prefix)}}}"
            self._normaliser.add_literal(name, self._normaliser.text(prefix) + suffix)

    async def _wait(self, request: RequestFormat, step: dict[str, Any]) -> tuple[Response, bool]:
        """Repeat a request until a condition holds; return the last response and whether it held."""
        deadline = time.monotonic() + min(step.get("timeout", 60), self._options.max_wait)
        pause = 0.01
        while True:
            response = await self._send(request)
            if is_met(step["until"], response):
                return response, True
            if time.monotonic() > deadline:
                return response, False
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.25)

    async def _install_crd(self, crd: dict[str, Any]) -> None:
        """Create a CustomResourceDefinition and wait until its resources are served."""
        name, names = crd["metadata"]["name"], crd["spec"]["names"]
        response = await self._send(encode("POST", CRDS, {"body": crd}))
        if response.status != 201:
            raise CaseError(_failure(name, response))
        established = {"path": "status.conditions[type=Established].status", "equals": "True"}
        waits: list[tuple[str, dict[str, Any]]] = [(f"{CRDS}/{name}", established)]
        for version in crd["spec"]["versions"]:
            if version.get("served"):
                base = f"/apis/{crd['spec']['group']}/{version['name']}"
                waits.append((f"{base}/{names['plural']}?limit=1", {"status": 200}))
                waits.append((base, {"path": f"resources[name={names['plural']}].name"}))
        for path, until in waits:
            if not (await self._wait(encode("GET", path, {}), {"until": until}))[1]:
                raise CaseError(f"{name}: GET {path}: not met: {until}")

    async def _collect(self, step: dict[str, Any], index: int) -> None:
        watch, line = self._watches[step["collect"]]
        response: dict[str, Any] = {"status": watch.status, **self._format.headers(watch.headers)}
        if watch.status != 200:
            response |= self._format.body(step, watch.body, watch.headers.get("Content-Type", ""))
        else:
            skipped = set(step.get("skip") or [])
            until_closed = bool(step.get("closed"))
            events = await watch.collect(
                step.get("events", 1),
                until_closed=until_closed,
                timeout=min(step.get("timeout", 60), self._options.max_wait),
                keep=lambda event: event.get("type") not in skipped,
            )
            response["events"] = [self._format.event(step, event) for event in events]
            if step.get("until_bookmark") and all(event.get("type") != "BOOKMARK" for event in events):
                response["noBookmark"] = True
            if until_closed:
                response["closed"] = watch.closed
            if step.get("sorted"):
                response["events"].sort(key=lambda event: json.dumps(event, sort_keys=True, default=str))
        await watch.stop()
        self._record(step, index, line, **response)

    async def _webhook_calls(self, step: dict[str, Any], index: int) -> None:
        """Record the reviews that a webhook handler received."""
        deadline = time.monotonic() + step.get("timeout", 60)
        received = self._hooks.calls[self.id, step["calls"]]
        while len(received) < step.get("count", 1) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        calls = list(received)
        if step.get("matching"):
            wanted = step["matching"].items()
            calls = [call for call in calls if all(lookup(call, path) == value for path, value in wanted)]
        if step.get("last"):
            calls = calls[-step["last"] :]
        body = [self._format.shape(step, call) for call in calls]
        self._record(step, index, f"CALLS {step['calls']}", status=0, contentType="", warnings=[], body=body)

    def _record(self, step: dict[str, Any], index: int, request: str, **response: Any) -> None:
        record: Record = {"step": index}
        if step.get("name"):
            record["name"] = step["name"]
        line = self._normaliser.message(urllib.parse.unquote_plus(request))
        record["request"] = re.sub(r"continue=[^&]{20,}", "continue={continue}", line)
        self.records.append(record | response)

    async def cleanup(self) -> None:
        """Delete what the case created, as far as possible; its namespace is deleted last."""
        own_namespace = f"/api/v1/namespaces/{self.namespace}"

        def order(path: str) -> int:
            if "admissionregistration" in path:
                return 0
            if "/namespaces/" in path:
                return 4 if path == own_namespace else 1
            return 3 if path.startswith(CRDS) else 2

        for path in sorted(self._created, key=order):
            if self._created[path]:
                headers = {"Content-Type": CONTENT_TYPES["merge"]}
                await self._client.request("PATCH", path, headers, b'{"metadata":{"finalizers":null}}')
            if f"{own_namespace}/" not in path.replace("/apis/", "/api/"):
                await self._client.request("DELETE", path)
        self._hooks.handlers.pop(self.id, None)


def _failure(what: str, response: Response) -> str:
    return f"{what}: {response.status} {response.body[:400].decode('utf-8', 'replace')}"
