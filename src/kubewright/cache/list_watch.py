"""A collection of a server as a reflector wants it, through a client."""

from __future__ import annotations

from kubewright.client.kind_types import AnyKind
from kubewright.client.listwatch.raw import RawPage, RawWatch
from kubewright.client.verbs.base import Fields, Labels
from kubewright.client.verbs.read import ReadVerbs


class ListWatch:
    """The objects of a kind in one namespace, or in all of them, that selectors choose.

    The kind is looked up at every request, so it may be installed later.
    """

    def __init__(
        self, client: ReadVerbs, kind: AnyKind, namespace: str, labels: Labels | None, fields: Fields | None
    ) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace or None
        self._labels = labels
        self._fields = fields

    async def list(self, *, limit: int, continue_: str) -> RawPage:
        """One page of them."""
        return await self._client.list_raw(
            self._kind,
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            limit=limit,
            continue_=continue_,
        )

    async def watch(
        self, *, resource_version: str, initial_state: bool, timeout_seconds: int, idle_timeout: float
    ) -> RawWatch:
        """Their changes."""
        return await self._client.watch_raw(
            self._kind,
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=resource_version,
            send_initial_events=True if initial_state else None,
            resource_version_match="NotOlderThan" if initial_state else "",
            timeout_seconds=timeout_seconds,
            idle_timeout=idle_timeout,
        )


__all__ = ["ListWatch"]
