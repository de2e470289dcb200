"""The timeline of a trace: what was true in the store, what the operator saw, and what it wrote.

Truth is followed through the changes of the store. An event, a list or the initial state of a watch that the
operator receives is *stale* if an object has changed since, and the timeline then says what was true. Events
that only return a write to the process that sent it are left out. A write is shown when it is stored, and
also when it is sent if that is earlier; a call of an external system with what it sends and receives.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.explore.faults import Fault, FaultError
from kubewright.explore.runs.trace import Trace, TraceEvent

from .model import Column, Emphasis, TimelineEntry

MAX_NAMES = 8
"""Number of objects of an initial state that are listed."""
_PROCESS_TEXTS = {
    "start": "starts",
    "crash": "is killed",
}


class _Timeline:
    """Follows the truth through the events of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.entries: list[TimelineEntry] = []
        self._current: dict[str, int] = {}
        """Revision of each existing object, by resource and name."""
        self._removed: dict[str, int] = {}
        """Revision at which an object was deleted, by resource and name."""
        self._written: dict[str, set[int]] = {}
        """Revisions that each process wrote itself."""
        self._writes: dict[int, TraceEvent] = {}
        """Requests by the revision that they created."""
        self._initial: dict[tuple[str, str], list[TraceEvent]] = {}
        self._stored: dict[int, float] = {}
        """Times of the changes of the store by revision."""

    def build(self) -> list[TimelineEntry]:
        for event in self._trace:
            if event.kind == "change":
                self._stored[event.revision] = event.time
            if event.kind in ("write", "request") and event.revision and event.process != "scenario":
                self._writes.setdefault(event.revision, event)
        for event in self._trace:
            self._add_event(event)
        return self.entries

    def _add(
        self,
        event: TraceEvent,
        column: Column,
        text: str,
        *,
        detail: str = "",
        emphasis: Emphasis = "",
        cause: TraceEvent | None = None,
    ) -> None:
        source = cause or event
        self.entries.append(
            TimelineEntry(
                number=event.number,
                time=event.time,
                process=source.process,
                column=column,
                text=text,
                detail=detail,
                point=source.point,
                emphasis=emphasis,
            )
        )

    def _add_event(self, event: TraceEvent) -> None:
        match event.kind:
            case "change":
                self._add_change(event)
            case "write":
                self._add_write(event)
            case "step":
                self._add(event, "true", f"step {event.text}", emphasis="step")
            case "delivery":
                self._add_delivery(event)
            case "initial":
                self._add_initial(event)
            case "read":
                self._add_read(event)
            case "fault":
                self._add(event, "true", _fault_text(event.text, self._trace), emphasis="fault")
            case "start" | "crash":
                emphasis: Emphasis = "fault" if event.kind == "crash" else "dim"
                self._add(event, "wrote", f"{event.process} {_PROCESS_TEXTS[event.kind]}", emphasis=emphasis)
            case "stop" | "log":
                self._add(event, "wrote", f"{event.process} {event.text}".strip(), emphasis="error")
            case "error":
                self._add(event, "true", event.text, emphasis="problem")
            case "external":
                self._add(event, "wrote", f"external: {event.text}", detail=event.body.decode())

    def _add_change(self, event: TraceEvent) -> None:
        verb, key = _split_change(event.text)
        if verb == "delete":
            self._current.pop(key, None)
            self._removed[key] = event.revision
        else:
            self._current[key] = event.revision
        cause = self._writes.get(event.revision)
        if cause is not None and cause.process:
            self._written.setdefault(cause.process, set()).add(event.revision)
            if cause.kind == "write" and event.time > cause.time:
                self._add(event, "wrote", cause.text, detail=f"revision {event.revision}", cause=cause)
            return
        self._add(event, "true", f"{verb} {key}", detail=f"revision {event.revision}")

    def _add_write(self, event: TraceEvent) -> None:
        if not event.ended:
            self._add(event, "wrote", event.text, detail="no response", emphasis="error")
        elif event.status >= 400:
            self._add(event, "wrote", event.text, detail=str(event.status), emphasis="error")
        elif self._writes.get(event.revision) is event and self._stored.get(event.revision, 0) > event.time:
            self._add(event, "wrote", f"sends {event.text}")
        else:
            detail = f"revision {event.revision}" if event.revision else ""
            self._add(event, "wrote", event.text, detail=detail)

    def _add_read(self, event: TraceEvent) -> None:
        verb, _, key = event.text.partition(" ")
        if event.status >= 400 or not event.ended:
            outcome = "not found" if event.status == 404 else str(event.status or "no response")
            emphasis: Emphasis = "dim" if event.status == 404 else "error"
            self._add(event, "saw", event.text, detail=outcome, emphasis=emphasis)
            return
        if verb != "list":
            stale = self._staleness(key, event.revision) if event.revision else ""
            if stale:
                self._add(
                    event, "saw", event.text, detail=f"revision {event.revision}{stale}", emphasis="stale"
                )
            return
        prefix = f"{key.partition(' ')[0]} "
        newer = [
            f"{name} is at revision {revision}"
            for name, revision in self._current.items()
            if name.startswith(prefix) and revision > event.revision > 0
        ]
        newer += [
            f"{name} was deleted at revision {revision}"
            for name, revision in self._removed.items()
            if name.startswith(prefix) and name not in self._current and revision > event.revision > 0
        ]
        if newer:
            detail = f"stale, as of revision {event.revision}: {'; '.join(newer)}"
            self._add(event, "saw", event.text, detail=detail, emphasis="stale")
        else:
            self._add(event, "saw", event.text, emphasis="dim")

    def _add_delivery(self, event: TraceEvent) -> None:
        if event.revision in self._written.get(event.process, ()):
            return
        type_, _, key = event.text.partition(" ")
        text = f"{type_} {key}"
        stale = self._staleness(key, event.revision, is_delete=type_ == "DELETED")
        self._add(
            event,
            "saw",
            text,
            detail=f"revision {event.revision}{stale}",
            emphasis="stale" if stale else "",
        )

    def _add_initial(self, event: TraceEvent) -> None:
        resource = event.text.split(" ")[-2] if event.text.endswith(" synced") else event.text.split(" ")[1]
        group = (event.process, resource)
        if not event.text.endswith(" synced"):
            self._initial.setdefault(group, []).append(event)
            return
        events = self._initial.pop(group, [])
        seen = {each.text.partition(" ")[2]: each.revision for each in events}
        stale = [f"{key}{note}" for key, revision in seen.items() if (note := self._staleness(key, revision))]
        prefix = f"{resource} "
        stale += [
            f"{key} is missing, it exists since revision {revision}"
            for key, revision in self._current.items()
            if key.startswith(prefix) and key not in seen
        ]
        names = _short_list([key.removeprefix(prefix) for key in seen if key in self._current])
        others = sum(key not in self._current for key in seen)
        if others:
            # Objects that existed before the scenario are not what the reader looks for.
            names = f"{f'{names} and ' if names else ''}{others} from before the scenario"
        names = names or "none"
        self._add(
            event,
            "saw",
            f"initial state of {resource}: {names}",
            detail="; ".join(stale),
            emphasis="stale" if stale else "dim",
        )

    def _staleness(self, key: str, revision: int, *, is_delete: bool = False) -> str:
        """Return what was true instead of a received revision; empty if it was true."""
        current = self._current.get(key)
        if current is None:
            removed = self._removed.get(key, 0)
            if is_delete or not removed:
                return ""
            return f" is stale: deleted at revision {removed}"
        if current > revision:
            return f" is stale: the object is at revision {current}"
        return ""


def timeline_of(trace: Trace, *, until: int | None = None) -> list[TimelineEntry]:
    """Return the timeline of a run, or of its events up to number `until`."""
    entries = _Timeline(trace).build()
    return entries if until is None else [each for each in entries if each.number <= until]


def shorten(entries: Sequence[TimelineEntry], *, limit: int = 60) -> list[TimelineEntry]:
    """Return at most `limit` entries: dim ones are left out first, then those farthest from faults."""
    if len(entries) <= limit:
        return list(entries)
    kept = [each for each in entries if each.emphasis != "dim"]
    if len(kept) <= limit:
        return kept
    marked = [index for index, each in enumerate(kept) if each.emphasis in ("fault", "problem", "stale")]
    ranked = sorted(
        range(len(kept)), key=lambda index: min((abs(index - each) for each in marked), default=0)
    )
    return [kept[index] for index in sorted(ranked[:limit])]


def _short_list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    return f"{shown} and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else shown


def _split_change(text: str) -> tuple[str, str]:
    """Return the verb and the key, `parts.example.com default/a`, of a change of the store."""
    verb, _, path = text.partition(" ")
    parts = path.strip("/").split("/")[1:]
    if not parts:
        return verb, path
    if "." in parts[0] and len(parts) > 1:
        group, resource, rest = parts[0], parts[1], parts[2:]
        return verb, f"{resource}.{group} {'/'.join(rest)}"
    resource, rest = parts[0], parts[1:]
    if resource == "services" and rest[:1] in (["specs"], ["endpoints"]):
        resource, rest = ("services" if rest[0] == "specs" else "endpoints"), rest[1:]
    return verb, f"{_qualified(resource)} {'/'.join(rest)}"


def _qualified(resource: str) -> str:
    """Return a built-in resource with its group, as in requests."""
    from kubewright.api.builtin import resources as builtin_resources

    for row in builtin_resources.resources():
        if row.plural == resource:
            return f"{resource}.{row.gvk.group}" if row.gvk.group else resource
    return resource


def _fault_text(text: str, trace: Trace) -> str:
    try:
        return f"fault {text}: {Fault.parse(text).explain(trace)}"
    except FaultError:
        return f"fault {text}"
