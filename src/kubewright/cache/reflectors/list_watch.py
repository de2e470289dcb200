"""`ListWatch`: lists and watches of one collection through a client, for a reflector."""

from __future__ import annotations

from kubewright.client.kind_types import ALL_NAMESPACES, AnyKind
from kubewright.client.listwatch.raw import RawPage, RawWatch
from kubewright.client.selectors import Fields, Labels
from kubewright.client.verbs.read import ReadVerbs


class ListWatch:
    """The objects of a kind in one namespace, or in all of them, that match selectors.

    The kind is mapped to its resource at every request, so its CRD can be installed later.
    """

    def __init__(
        self,
        client: ReadVerbs,
        kind: AnyKind,
        *,
        namespace: str = "",
        labels: Labels | None = None,
        fields: Fields | None = None,
    ) -> None:
        self._client = client
        self._kind = kind
        everywhere = None if client.options.only_namespace else ALL_NAMESPACES
        self._namespace = namespace or everywhere
        self._labels = labels
        self._fields = fields

    has_delivered_writes = True
    """Writes of this client are recorded by a `CachedClient`; of others it knows nothing."""

    def request_progress(self, revision: int) -> None:
        """Do nothing: servers send bookmarks."""

    async def list(self, *, limit: int, continue_: str) -> RawPage:
        """Return one page."""
        return await self._client.list_raw(
            self._kind,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            limit=limit,
            continue_=continue_,
        )

    async def watch(
        self, *, resource_version: str, initial_events: bool, timeout_seconds: int, idle_timeout: float
    ) -> RawWatch:
        """Start a watch."""
        return await self._client.watch_raw(
            self._kind,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=resource_version,
            send_initial_events=True if initial_events else None,
            resource_version_match="NotOlderThan" if initial_events else "",
            timeout_seconds=timeout_seconds,
            idle_timeout=idle_timeout,
        )
