"""The `--audit-...` flags of kube-apiserver: names, kinds, defaults and help texts.

The module imports nothing of the server, so that command lines can be parsed before it is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kubewright.options.kinds import BOOLEAN, INTEGER, NUMBER, SECONDS, TEXT
from kubewright.options.model import Option, part

_MODE, _FORMAT, _VERSION = (replace(TEXT, example=each) for each in ("batch", "json", "audit.k8s.io/v1"))


def _backend_flags(
    name: str, mode: str, *, max_size: int, max_wait: float, throttle: bool, qps: float, burst: int
) -> Iterable[Option]:
    modes = "batch, blocking, or blocking-strict, which rejects requests that cannot be recorded."
    yield part(f"audit-{name}-mode", _MODE, modes, mode, is_rare=False)
    for option, kind, default, text in (
        ("batch-buffer-size", INTEGER, 10_000, "Events in the queue of the mode batch."),
        ("batch-max-size", INTEGER, max_size, "Maximum events of a batch."),
        ("batch-max-wait", SECONDS, max_wait, "Maximum age of a batch."),
        ("batch-throttle-enable", BOOLEAN, throttle, "Whether the rate of batches is limited."),
        ("batch-throttle-qps", NUMBER, qps, "Average batches per second."),
        ("batch-throttle-burst", INTEGER, burst, "Batches in one moment."),
        ("truncate-enabled", BOOLEAN, False, "Whether the objects of large events are removed."),
        ("truncate-max-batch-size", INTEGER, 10 * 1024 * 1024, "Maximum bytes of a batch."),
        ("truncate-max-event-size", INTEGER, 100 * 1024, "Maximum bytes of an event."),
        ("version", _VERSION, "audit.k8s.io/v1", "API version of events."),
    ):
        yield part(f"audit-{name}-{option}", kind, text, default)


FLAGS: Final = (
    part("audit-policy-file", TEXT, "Audit policy: which requests are recorded, and how.", "", is_rare=False),
    part("audit-log-path", TEXT, "File for audit events; - is the standard output.", "", is_rare=False),
    part("audit-log-maxsize", INTEGER, "Megabytes after which the audit log is rotated.", 100, is_rare=False),
    part("audit-log-maxbackup", INTEGER, "Number of rotated audit logs; 0 for no limit.", 100, is_rare=False),
    part(
        "audit-log-maxage", INTEGER, "Age of rotated audit logs in days; 0 for no limit.", 366, is_rare=False
    ),
    part("audit-log-compress", BOOLEAN, "Whether rotated audit logs are compressed.", False),
    part("audit-log-format", _FORMAT, "Format of the audit log: json or legacy.", "json"),
    *_backend_flags("log", "blocking", max_size=1, max_wait=0.0, throttle=False, qps=0.0, burst=0),
    part("audit-webhook-config-file", TEXT, "Kubeconfig with the URL for audit events.", "", is_rare=False),
    part("audit-webhook-initial-backoff", SECONDS, "Delay before a request is repeated.", 10.0),
    *_backend_flags("webhook", "batch", max_size=400, max_wait=30.0, throttle=True, qps=10.0, burst=15),
)
"""All flags, in the order of the help."""

DEFAULTS: Final = {flag.name: flag.default for flag in FLAGS}
