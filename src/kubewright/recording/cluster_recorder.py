"""`ClusterRecorder`: records the objects of a cluster with lists and watches, and nothing else.

    recorder = ClusterRecorder(client, await select_resources(client, ["shops", "deployments"]))
    await recorder.run(Path("shop.recording.gz"), stop, redactor=Redactor())

Only `GET` requests are sent: a credential with the verbs `list` and `watch` is enough. Kinds that it may not
list are left out and named in the notes of the recording. Objects are redacted before they are written; the
file is bounded by `max_bytes`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError
from kubewright.cache.informers.informer import Informer
from kubewright.cache.reflectors.list_watch import ListWatch
from kubewright.client.errors import ConnectionFailed

from .change_log import ChangeLog, decode_changes, decode_objects
from .recording_files import RecordingError, RecordingWriter

if TYPE_CHECKING:
    from kubewright.client import Client
    from kubewright.client.discovery.api_resource import APIResource

    from .redaction import Redactor

MAX_BYTES = 1 << 30
"""Size of a recording before it is compressed."""
WRITE_SECONDS = 0.5
LEFT_OUT = frozenset(
    ("events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints", "componentstatuses")
)
"""Resources that are recorded only if they are named: they change all the time."""


async def select_resources(client: Client, kinds: Sequence[str] = ()) -> list[APIResource]:
    """Return the resources of names such as `deploy` or `shops.example.com`, by default nearly all."""
    found: list[APIResource] = []
    known: set[tuple[str, str]] = set()
    served = await client.mapper.resources()
    for resource in served:
        identity = (resource.gvr.group, resource.plural)
        is_usable = {"list", "watch"} <= set(resource.verbs) and identity not in known
        is_chosen = (
            any(resource.matches(each) for each in kinds)
            if kinds
            else str(resource.gvr.group_resource) not in LEFT_OUT and resource.gvr.group != "metrics.k8s.io"
        )
        if is_usable and is_chosen:
            known.add(identity)
            found.append(resource)
    for name in kinds:
        if not any(each.matches(name) for each in found):
            raise RecordingError(f"the server has no resource {name!r} that can be watched")
    return found


class ClusterRecorder:
    """Records some resources of a cluster."""

    def __init__(
        self, client: Client, resources: Iterable[APIResource], *, max_bytes: int = MAX_BYTES
    ) -> None:
        self._client = client
        self._resources = list(resources)
        self._max_bytes = max_bytes
        self._spans: list[dict[str, Any]] = []
        self.operator = ""
        """Name of the operator whose reconciles are added."""
        self.objects = 0
        self.changes = 0
        self.reconciles = 0
        self.notes: list[str] = []
        self.is_full = False
        """Whether the recording ended because of its size."""

    def add_reconcile(self, span: dict[str, Any]) -> None:
        """Add a reconcile of an operator."""
        self._spans.append(span)

    async def run(
        self,
        path: Path,
        stop: asyncio.Event,
        *,
        redactor: Redactor | None,
        source: str = "",
        on_start: Callable[[], None] | None = None,
    ) -> None:
        """Record until `stop` is set or the file is full; `on_start` is called when the state was read."""
        version = str((await self._client.version()).get("gitVersion") or "").removeprefix("v")
        log = ChangeLog()
        informers = [each for each in [await self._informer(each) for each in self._resources] if each]
        if not informers:
            raise RecordingError(f"none of the kinds can be listed: {'; '.join(self.notes)}")
        for informer in informers:
            log.follow(informer)
            informer.start()
        try:
            for informer in informers:
                await informer.wait_for_sync()
            log.started = log.clock()
            log.entries(drain=True)  # part of the state at the start
            with RecordingWriter(path, redactor) as writer:
                writer.notes = self.notes
                start = datetime.fromtimestamp(log.started, UTC)
                writer.header(start=start, source=source, operator=self.operator, kubernetes_version=version)
                objects = log.objects()
                self.objects = len(objects)
                await asyncio.to_thread(writer.objects, decode_objects(objects))
                writer.flush()
                if on_start is not None:
                    on_start()
                await self._write_changes(log, writer, stop)
        finally:
            log.close()
            for informer in informers:
                await informer.stop()

    async def _informer(self, resource: APIResource) -> Informer | None:
        """Return the informer of a resource; `None` if it cannot be listed."""
        source = ListWatch(self._client, resource.gvk)
        try:
            await source.list(limit=1, continue_="")
        except (APIError, ConnectionFailed, TimeoutError) as error:
            self.notes.append(f"{resource.gvr.group_resource} cannot be listed: {error}")
            return None
        # With managed fields: they name the client of a change.
        return Informer(resource.gvk, {"": source}, transform=None)

    async def _write_changes(self, log: ChangeLog, writer: RecordingWriter, stop: asyncio.Event) -> None:
        is_last = False
        while not is_last and not self.is_full:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WRITE_SECONDS):
                    await stop.wait()
            is_last = stop.is_set()
            entries, (spans, self._spans) = log.entries(drain=True), (self._spans, [])
            self.changes += len(entries)
            self.reconciles += len(spans)

            def write() -> None:
                for change in decode_changes(entries, log.started):  # noqa: B023 - called in this round
                    writer.change(change)
                for span in spans:  # noqa: B023
                    writer.reconcile(span)
                if entries or spans:  # noqa: B023
                    writer.flush()

            await asyncio.to_thread(write)
            writer.duration = log.clock() - log.started
            self.is_full = writer.bytes > self._max_bytes
        if self.is_full:
            self.notes.append(f"the recording ended at its limit of {self._max_bytes >> 20} MiB")
