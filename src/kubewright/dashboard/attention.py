"""What needs attention in a cluster, the most urgent first: the findings of the overview.

Findings are derived from the index of objects and from the spans of the connected operators; each names the
evidence: the object, the error, how often, since when. They are computed when a page asks, because several of
them depend on the time.

| type | found if |
|---|---|
| `reconcile` | the last reconcile of an object failed |
| `webhook` | the last call of a webhook failed, or several of the last five minutes did |
| `fight` | two controllers write the same object, each more than once in 30 s |
| `loop` | a controller reconciles an object ten times in 10 s only because of its own writes |
| `finalizer` | an object is being deleted for more than a minute |
| `failed` | an object is failed according to its status |
| `container` | a container cannot start |
| `unschedulable` | the scheduler found no node for a pod |
| `certificate` | a certificate expires within two weeks |
| `quota` | a quota is used up |
| `slow` | an object is not ready for three times as long as its kind usually takes |
| `slow webhook` | half of the last calls of a webhook took more than a second |
| `disruption` | a PodDisruptionBudget allows no eviction |
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from kubewright.api.values.times import wall_time

from .objects.object_index import ObjectIndex
from .objects.object_records import ObjectRecord
from .operators.object_evidence import is_failure
from .operators.traces import TraceStore

TYPES: Final = (
    "reconcile",
    "webhook",
    "fight",
    "loop",
    "finalizer",
    "failed",
    "container",
    "unschedulable",
    "certificate",
    "quota",
    "slow",
    "slow webhook",
    "disruption",
)
"""Types of findings, the most urgent first."""
MAX_FINDINGS: Final = 100
STUCK_SECONDS: Final = 60.0
EXPIRY_SECONDS: Final = 14 * 86400.0
FIGHT_SECONDS: Final = 30.0
LOOP_SECONDS: Final = 10.0
LOOP_COUNT: Final = 10
WEBHOOK_SECONDS: Final = 300.0
WEBHOOK_ERRORS: Final = 3
SLOW_WEBHOOK_SECONDS: Final = 1.0
SLOW_FACTOR: Final = 3.0
SLOW_MINIMUM: Final = 30.0
SLOW_UNKNOWN: Final = 300.0
"""Seconds without readiness that are reported if the usual time of the kind is unknown."""

Finding = dict[str, Any]


class Attention:
    """Finds what needs attention."""

    def __init__(
        self, index: ObjectIndex, traces: TraceStore, *, clock: Callable[[], float] = wall_time
    ) -> None:
        self._index = index
        self._traces = traces
        self._clock = clock

    def describe(self, namespace: str = "") -> dict[str, Any]:
        """Return the findings of a namespace or of all, and their number by type."""
        now = self._clock() * 1000
        found = [
            *self._reconciles(),
            *self._webhooks(now),
            *self._writes(),
            *self._objects(now),
        ]
        if namespace:
            found = [each for each in found if each["namespace"] in ("", namespace)]
        found.sort(
            key=lambda each: (TYPES.index(each["type"]), -each["count"], each["since"] or now, each["id"])
        )
        return {
            "findings": found[:MAX_FINDINGS],
            "totals": Counter(each["type"] for each in found),
        }

    def _reconciles(self) -> Iterator[Finding]:
        known: dict[str, set[str]] = defaultdict(set)
        for each in self._traces.evidence.failing():
            request = f"{each['namespace']}/{each['name']}" if each["namespace"] else each["name"]
            known[each["controller"]].add(request)
            yield self._finding(
                "reconcile",
                self._reference(
                    each["group"], each["version"], each["kind"], each["namespace"], each["name"]
                ),
                each["error"],
                count=each["failuresInRow"],
                since=each["failingSince"],
                next=each["nextRetry"],
                controller=each["controller"],
                span=each["lastFailureId"],
            )
        for controller, requests in self._traces.failing_requests().items():
            for request, error in requests.items():
                if request not in known[controller]:
                    # The reconcile ended before this dashboard was connected: only the error is known.
                    namespace, _, name = request.rpartition("/")
                    finding = self._finding("reconcile", None, error, count=1, controller=controller)
                    yield {
                        **finding,
                        "namespace": namespace,
                        "request": request,
                        "id": f"{controller} {name}",
                    }

    def _webhooks(self, now: float) -> Iterator[Finding]:
        calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for span in self._traces.recent_webhooks():
            if span["started"] >= now - WEBHOOK_SECONDS * 1000:
                calls[span["path"]].append(span)
        for path, spans in calls.items():
            failed = [each for each in spans if each["error"] or each["code"] >= 500]
            if failed and (failed[0] is spans[0] or len(failed) >= WEBHOOK_ERRORS):
                message = failed[0]["error"] or failed[0]["message"] or f"HTTP {failed[0]['code']}"
                yield self._finding(
                    "webhook",
                    None,
                    message,
                    count=len(failed),
                    since=failed[-1]["started"],
                    controller=path,
                    span=failed[0]["id"],
                )
            elif statistics.median(each["duration"] for each in spans) >= SLOW_WEBHOOK_SECONDS:
                slowest = max(spans, key=lambda each: float(each["duration"]))
                yield self._finding(
                    "slow webhook",
                    None,
                    f"half of {len(spans)} calls took more than {SLOW_WEBHOOK_SECONDS:g} s, "
                    f"the longest {slowest['duration']:.1f} s",
                    count=len(spans),
                    since=spans[-1]["started"],
                    controller=path,
                    span=slowest["id"],
                )

    def _writes(self) -> Iterator[Finding]:
        """Find controllers that write the same object, and those that trigger themselves."""
        spans = self._traces.recent_reconciles()
        if not spans:
            return
        latest = max(float(each["ended"]) for each in spans)
        writers: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        loops: Counter[tuple[str, ...]] = Counter()
        for span in spans:
            if span["ended"] < latest - FIGHT_SECONDS * 1000:
                continue
            for write in span["writes"]:
                if _is_contested(write):
                    target = (write["resource"], write["namespace"], write["name"])
                    writers[target][span["controller"]] += 1
            causes = span["causes"]
            recent = span["ended"] >= latest - LOOP_SECONDS * 1000
            own = bool(causes) and all(each["trigger"] == "own write" for each in causes)
            if own and recent and span["writes"] and not is_failure(span):
                fields = ("controller", "group", "version", "kind", "namespace", "name")
                loops[tuple(span[field] for field in fields)] += 1
        fighting: set[str] = set()
        for (resource, namespace, name), found in writers.items():
            if len(found) > 1 and min(found.values()) > 1:
                fighting.update(found)
                who = " and ".join(sorted(found))
                where = f"{resource} {namespace + '/' if namespace else ''}{name}"
                finding = self._finding(
                    "fight",
                    self._resource_reference(resource, namespace, name),
                    f"{who} both write {where}: {found.total()} writes in {FIGHT_SECONDS:g} s. "
                    "They may be in conflict over its fields.",
                    count=found.total(),
                    controller=who,
                )
                yield {**finding, "namespace": namespace}
        for (controller, *identity), count in loops.items():
            if count >= LOOP_COUNT and controller not in fighting:
                yield self._finding(
                    "loop",
                    self._reference(*identity),
                    f"{controller} wrote in {count} reconciles in {LOOP_SECONDS:g} s. "
                    "Its writes may trigger its next reconcile.",
                    count=count,
                    controller=controller,
                )

    def _objects(self, now: float) -> Iterator[Finding]:
        by_health = self._index.by_health
        for record in by_health["Terminating"].values():
            if record.deleting and now - record.deleting > STUCK_SECONDS * 1000:
                names = ", ".join(record.finalizers)
                message = f"waits for finalizers: {names}" if names else "waits for the end of its containers"
                yield self._object("finalizer", record, message, since=record.deleting)
        for record in by_health["Failed"].values():
            if not record.failure:
                yield self._object("failed", record, record.message, since=record.changed or None)
        for record in self._index.troubled.values():
            yield from self._troubles(record, now)
        for record in by_health["InProgress"].values():
            usual = record.kind.usual_seconds
            limit = SLOW_UNKNOWN if usual is None else max(SLOW_MINIMUM, SLOW_FACTOR * usual)
            if record.troubles or not record.changed or now - record.changed <= limit * 1000:
                continue
            text = "usual time unknown" if usual is None else f"usually ready within {usual:.0f} s"
            message = f"{record.message or 'not ready'} ({text})"
            yield self._object("slow", record, message, since=record.changed)

    def _troubles(self, record: ObjectRecord, now: float) -> Iterator[Finding]:
        for trouble in record.troubles:
            message = trouble.message
            if trouble.type == "certificate" and trouble.expires:
                if trouble.expires - now > EXPIRY_SECONDS * 1000:
                    continue
                message += " has expired" if trouble.expires <= now else " expires"
            found = self._object(trouble.type, record, message, since=trouble.since)
            yield {**found, "next": trouble.expires or None}

    def _object(
        self, type_: str, record: ObjectRecord, message: str, *, since: float | None = None
    ) -> Finding:
        return self._finding(type_, record.reference(), message, count=1, since=since)

    def _finding(
        self,
        type_: str,
        reference: dict[str, Any] | None,
        message: str,
        *,
        count: int,
        since: float | None = None,
        next: float | None = None,
        controller: str = "",
        span: str = "",
    ) -> Finding:
        names = [] if reference is None else [reference["kind"], reference["namespace"], reference["name"]]
        return {
            "id": " ".join((type_, controller, *names)),
            "type": type_,
            "object": reference,
            "namespace": "" if reference is None else reference["namespace"],
            "request": "",
            "message": message,
            "count": count,
            "since": since,
            "next": next,
            "controller": controller,
            "span": span,
        }

    def _reference(self, group: str, version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
        state = self._index.kind_of(group, kind)
        return {
            "group": group,
            "version": version,
            "kind": kind,
            "resource": state.resource.plural if state is not None else "",
            "namespaced": bool(namespace),
            "namespace": namespace,
            "name": name,
        }

    def _resource_reference(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the object of a write, whose resource is named as in `deployments.apps`."""
        plural, _, group = resource.partition(".")
        state = self._index.kinds.get((group, plural))
        if state is None:
            return None
        return {**state.identity(), "namespace": namespace, "name": name}


def _is_contested(write: dict[str, Any]) -> bool:
    if write["error"] or write["subresource"] == "status" or write["verb"] == "create":
        return False
    return not write["resource"].startswith("events")
