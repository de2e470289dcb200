"""The `--audit-...` flags of kube-apiserver: names, types, defaults and help texts.

The module imports nothing, so that command lines can be parsed before the server is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple


class AuditFlag(NamedTuple):
    """A flag: its name, type (`string`, `int`, `float`, `bool`, `duration` in seconds), default and help."""

    name: str
    type: str
    default: Any
    help: str
    is_common: bool = False
    """Whether the flag is in the help of `kubewright up`."""


def _backend_flags(
    name: str, mode: str, *, max_size: int, max_wait: float, throttle: bool, qps: float, burst: int
) -> Iterable[AuditFlag]:
    modes = "batch, blocking, or blocking-strict, which rejects requests that cannot be recorded."
    for option, kind, default, text in (
        ("mode", "string", mode, modes),
        ("batch-buffer-size", "int", 10_000, "Events in the queue of the mode batch."),
        ("batch-max-size", "int", max_size, "Maximum events of a batch."),
        ("batch-max-wait", "duration", max_wait, "Maximum age of a batch."),
        ("batch-throttle-enable", "bool", throttle, "Whether the rate of batches is limited."),
        ("batch-throttle-qps", "float", qps, "Average batches per second."),
        ("batch-throttle-burst", "int", burst, "Batches in one moment."),
        ("truncate-enabled", "bool", False, "Whether the objects of large events are removed."),
        ("truncate-max-batch-size", "int", 10 * 1024 * 1024, "Maximum bytes of a batch."),
        ("truncate-max-event-size", "int", 100 * 1024, "Maximum bytes of an event."),
        ("version", "string", "audit.k8s.io/v1", "API version of events."),
    ):
        yield AuditFlag(f"audit-{name}-{option}", kind, default, text, option == "mode")


FLAGS: Final = (
    AuditFlag("audit-policy-file", "string", "", "Audit policy: which requests are recorded, and how.", True),
    AuditFlag("audit-log-path", "string", "", "File for audit events; - is the standard output.", True),
    AuditFlag("audit-log-maxsize", "int", 100, "Megabytes after which the audit log is rotated.", True),
    AuditFlag("audit-log-maxbackup", "int", 100, "Number of rotated audit logs; 0 for no limit.", True),
    AuditFlag("audit-log-maxage", "int", 366, "Age of rotated audit logs in days; 0 for no limit.", True),
    AuditFlag("audit-log-compress", "bool", False, "Whether rotated audit logs are compressed."),
    AuditFlag("audit-log-format", "string", "json", "Format of the audit log: json or legacy."),
    *_backend_flags("log", "blocking", max_size=1, max_wait=0.0, throttle=False, qps=0.0, burst=0),
    AuditFlag("audit-webhook-config-file", "string", "", "Kubeconfig with the URL for audit events.", True),
    AuditFlag("audit-webhook-initial-backoff", "duration", 10.0, "Delay before a request is repeated."),
    *_backend_flags("webhook", "batch", max_size=400, max_wait=30.0, throttle=True, qps=10.0, burst=15),
)
"""All flags, in the order of the help."""

DEFAULTS: Final = {flag.name: flag.default for flag in FLAGS}
