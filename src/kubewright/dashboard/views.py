"""Handlers of `/api/`: they read the index, the histories, the traces and the access rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kubewright.api.encoding.codec import DecodeError, loads
from kubewright.api.gvk import GroupVersionKind

from .access import AccessRules, explain_access, own_rules
from .api_server_probe import ApiServerProbe
from .event_stream import PageStream
from .objects.history import Histories
from .objects.object_index import ObjectIndex, parse_object
from .objects.object_queries import objects_of, search
from .objects.object_records import HEALTHS
from .objects.owner_tree import describe_tree
from .operators.object_evidence import ReconciledObject
from .operators.traces import TraceStore
from .overview import Overview
from .proxy import read_body
from .responses import RequestError, json_response, raw_json_response

if TYPE_CHECKING:
    from aiohttp import web

    from kubewright.client import Client

Handler = Callable[[Any], Awaitable["web.StreamResponse"]]


class Views:
    """The data of a dashboard, and the handlers that return it."""

    def __init__(self, client: Client, traces: TraceStore) -> None:
        self._client = client
        self.traces = traces
        self.index = ObjectIndex(client)
        self._overview = Overview(self.index, traces)
        self._probe = ApiServerProbe(client)
        traces.evidence.add_listener(self._set_failure)
        for key, error in traces.evidence.failed():
            self._set_failure(key, error)
        self._histories = Histories(client)

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Return the handlers by method and path."""
        return {
            ("GET", "/api/overview"): self._get_overview,
            ("GET", "/api/stream"): self._stream,
            ("GET", "/api/tree"): self._get_tree,
            ("GET", "/api/search"): self._search,
            ("GET", "/api/objects"): self._get_objects,
            ("GET", "/api/history"): self._get_history,
            ("GET", "/api/reconciles"): self._get_reconciles,
            ("GET", "/api/webhooks"): self._get_webhooks,
            ("GET", "/api/queues"): self._get_queues,
            ("GET", "/api/access"): self._get_access,
            ("POST", "/api/access/why"): self._explain_access,
        }

    def _set_failure(self, key: ReconciledObject, error: str) -> None:
        self.index.set_failure(*key, error)

    async def stop(self) -> None:
        """Stop all watches."""
        await self._probe.stop()
        await self.index.stop()
        await self._histories.stop()

    async def _get_overview(self, request: Any) -> web.StreamResponse:
        await self.index.use()
        return raw_json_response(self._overview.encode(request.query.get("namespace", "")))

    async def _stream(self, request: Any) -> web.StreamResponse:
        return await PageStream(self.index, self._overview, self.traces, self._probe, request.query).serve(
            request
        )

    async def _get_tree(self, request: Any) -> web.StreamResponse:
        wanted = parse_object(request.query)
        await self.index.use()
        whole = request.query.get("whole", "") not in ("", "0")
        return json_response(describe_tree(self.index, wanted, whole=whole))

    async def _search(self, request: Any) -> web.StreamResponse:
        await self.index.use()
        return json_response(await search(self.index, request.query.get("q", ""), _limit(request.query, 50)))

    async def _get_objects(self, request: Any) -> web.StreamResponse:
        query = request.query
        await self.index.use()
        health = query.get("health", "")
        if health not in HEALTHS:
            raise RequestError(400, f"health={health}: expected one of {', '.join(HEALTHS)}")
        limit = _limit(query, 500)
        return json_response(
            objects_of(self.index, health, namespace=query.get("namespace", ""), limit=limit)
        )

    async def _get_history(self, request: Any) -> web.StreamResponse:
        group, kind, namespace, name = parse_object(request.query)
        version = request.query.get("version", "")
        if not version:
            raise RequestError(400, "the parameter version is required")
        gvk = GroupVersionKind(group, version, kind)
        return json_response(await self._histories.get(gvk, namespace, name))

    async def _get_reconciles(self, request: Any) -> web.StreamResponse:
        query = request.query
        spans = self.traces.reconciles(
            controller=query.get("controller", ""),
            kind=query.get("kind", ""),
            namespace=query.get("namespace", ""),
            name=query.get("name", ""),
            errors=query.get("errors", "") not in ("", "0"),
            limit=_limit(query, 200),
        )
        return json_response(spans)

    async def _get_webhooks(self, request: Any) -> web.StreamResponse:
        query = request.query
        return json_response(self.traces.webhooks(path=query.get("path", ""), limit=_limit(query, 200)))

    async def _get_queues(self, request: Any) -> web.StreamResponse:
        return json_response(self.traces.queues())

    async def _get_access(self, request: Any) -> web.StreamResponse:
        query = request.query
        namespace = query.get("namespace", "")
        rules = await AccessRules.read(self._client)
        graph = rules.graph(
            namespace=namespace,
            subject=query.get("subject", ""),
            system=query.get("system", "") not in ("", "0"),
        )
        own = await own_rules(self._client, namespace) if rules.unreadable else None
        return json_response({**graph, "unreadable": rules.unreadable, "own": own})

    async def _explain_access(self, request: Any) -> web.StreamResponse:
        try:
            question = loads(await read_body(request))
        except DecodeError as error:
            raise RequestError(400, f"the body is not JSON: {error}") from None
        return json_response(await explain_access(self._client, question))


def _limit(query: Any, default: int) -> int:
    text = query.get("limit", "")
    if not text:
        return default
    if not text.isdecimal() or not 0 < int(text) <= 5000:
        raise RequestError(400, f"limit={text}: expected a number from 1 to 5000")
    return int(text)
