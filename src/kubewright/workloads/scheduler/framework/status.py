"""`Status`: the result of a plug-in, and `FitError`: why no node fits a pod.

A plug-in returns `None` for success. Reasons are aggregated over nodes into the message of the `PodScheduled`
condition, in the format of kube-scheduler: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had
untolerated taint(s).`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Code(Enum):
    """What a status means."""

    SUCCESS = "Success"
    ERROR = "Error"
    """The plug-in failed; the pod is retried with backoff."""
    UNSCHEDULABLE = "Unschedulable"
    """The pod does not fit; preemption of other pods may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """The pod does not fit, and preemption cannot help."""
    WAIT = "Wait"
    """Permit: the pod has to wait before it is bound."""
    SKIP = "Skip"
    """PreFilter and PreScore: do not call Filter or Score of this plug-in. Bind: use the next plug-in."""
    PENDING = "Pending"
    """PreFilter: the pod waits for another component; it is queued without backoff when that is done."""


_REJECTED = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class SchedulingStatus:
    """A result that is not a plain success. `plugin` is set by the framework."""

    __slots__ = ("code", "error", "plugin", "reasons", "timeout")

    def __init__(
        self,
        code: Code,
        *reasons: str,
        plugin: str = "",
        error: Exception | None = None,
        timeout: float = 0.0,
    ) -> None:
        self.code = code
        self.reasons = reasons
        self.plugin = plugin
        self.error = error
        self.timeout = timeout
        """Seconds that a pod waits at most, for `WAIT`."""

    @classmethod
    def wait(cls, timeout: float) -> SchedulingStatus:
        """Permit: the pod waits for `WaitingPod.allow`, at most this many seconds."""
        return cls(Code.WAIT, timeout=timeout)

    @classmethod
    def unschedulable(cls, *reasons: str) -> SchedulingStatus:
        """The pod does not fit; removing other pods may help."""
        return cls(Code.UNSCHEDULABLE, *reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> SchedulingStatus:
        """The pod does not fit, whatever other pods are removed."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, *reasons)

    @classmethod
    def from_error(cls, error: Exception, *, plugin: str = "") -> SchedulingStatus:
        """A plug-in raised an exception."""
        return cls(Code.ERROR, str(error) or type(error).__name__, plugin=plugin, error=error)

    @property
    def is_rejected(self) -> bool:
        """Whether the pod is unschedulable, as opposed to an error or a request to wait."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons)

    def __repr__(self) -> str:
        return f"Status({self.code.value}, {self.message!r}, plugin={self.plugin!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SchedulingStatus):
            return NotImplemented
        return self.code is other.code and self.reasons == other.reasons


SKIP = SchedulingStatus(Code.SKIP)
"""Do not call Filter (from PreFilter) or Score (from PreScore) of this plug-in for this pod."""


class NoNodesAvailable(Exception):
    """The cluster has no nodes."""

    def __init__(self) -> None:
        super().__init__("no nodes available to schedule pods")


@dataclass(slots=True)
class Diagnosis:
    """Why nodes were rejected in one scheduling cycle."""

    node_statuses: dict[str, SchedulingStatus] = field(default_factory=dict)
    absent_status: SchedulingStatus = field(
        default_factory=lambda: SchedulingStatus(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    )
    """Status of nodes that were not checked."""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    pre_filter_message: str = ""
    post_filter_message: str = ""

    def add_plugin(self, status: SchedulingStatus) -> None:
        """Record the plug-in that rejected the pod; its cluster events can requeue the pod."""
        if not status.plugin:
            return
        if status.code is Code.PENDING:
            self.pending_plugins.add(status.plugin)
        elif status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)

    def status_of(self, node_name: str) -> SchedulingStatus:
        """Return the status of a node."""
        return self.node_statuses.get(node_name, self.absent_status)


class FitError(Exception):
    """No node fits the pod. The text is that of kube-scheduler."""

    def __init__(self, node_count: int, diagnosis: Diagnosis) -> None:
        super().__init__()
        self.node_count = node_count
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        diagnosis = self.diagnosis
        text = f"0/{self.node_count} nodes are available:"
        if diagnosis.pre_filter_message:
            text += f" {diagnosis.pre_filter_message}."
        else:
            counts = count_reasons(diagnosis.node_statuses, self.node_count, diagnosis.absent_status)
            if counts:
                text += f" {', '.join(counts)}."
        if diagnosis.post_filter_message:
            text += f" {diagnosis.post_filter_message}"
        return text


def count_reasons(
    statuses: Mapping[str, SchedulingStatus], node_count: int, absent: SchedulingStatus
) -> list[str]:
    """Return `<number of nodes> <reason>`, sorted as text."""
    counts: dict[str, int] = {}
    for status in statuses.values():
        _add(counts, status.reasons, 1)
    if len(statuses) < node_count:
        _add(counts, absent.reasons, node_count - len(statuses))
    return sorted(f"{count} {reason}" for reason, count in counts.items())


def _add(counts: dict[str, int], reasons: Iterable[str], number: int) -> None:
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + number
