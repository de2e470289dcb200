"""The `--audit-...` flags of kube-apiserver, and the auditor that they describe.

options = AuditOptions.from_flags({"audit-policy-file": "policy.yaml", "audit-log-path": "audit.log"})
server.auditor = options.auditor()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .auditor import Auditor
from .backends import AuditBackend, IgnoreErrors, TruncateEvents
from .batching import BatchBackend, BatchOptions
from .event import API_VERSION
from .flags import DEFAULTS
from .log_file import LogBackend
from .policy import AuditPolicy
from .webhook import WebhookBackend

MODES: Final = ("batch", "blocking", "blocking-strict")


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Values of the flags by name; those that are not given have their default."""

    values: Mapping[str, Any]

    @classmethod
    def from_flags(cls, given: Mapping[str, Any]) -> AuditOptions | None:
        """Return the options, or `None` if no policy or no backend is given: nothing is recorded then.

        Raises `ValueError` for unknown flags and values that are not allowed.
        """
        unknown = given.keys() - DEFAULTS.keys()
        if unknown:
            raise ValueError(f"unknown audit flags: {', '.join(sorted(unknown))}")
        values = {**DEFAULTS, **given}
        for name in ("log", "webhook"):
            mode = values[f"audit-{name}-mode"]
            if mode not in MODES:
                raise ValueError(f'invalid audit {name} mode {mode}, allowed modes are "{",".join(MODES)}"')
            if values[f"audit-{name}-version"] != API_VERSION:
                raise ValueError(f"--audit-{name}-version: allowed is {API_VERSION}")
        options = cls(values)
        if not values["audit-policy-file"]:
            return None
        if not (values["audit-log-path"] or values["audit-webhook-config-file"]):
            return None
        return options

    def auditor(self) -> Auditor:
        """Return the auditor, not started; raises `OSError` or `ValueError` for files that cannot be used."""
        values = self.values
        policy = AuditPolicy.from_file(values["audit-policy-file"])
        backends = []
        if values["audit-log-path"]:
            log = LogBackend(
                values["audit-log-path"],
                format=values["audit-log-format"],
                max_size=values["audit-log-maxsize"],
                max_backups=values["audit-log-maxbackup"],
                max_age=values["audit-log-maxage"],
                compress=values["audit-log-compress"],
            )
            backends.append(self._wrapped("log", log))
        if values["audit-webhook-config-file"]:
            webhook = WebhookBackend(
                values["audit-webhook-config-file"], initial_backoff=values["audit-webhook-initial-backoff"]
            )
            backends.append(self._wrapped("webhook", webhook))
        return Auditor(policy, backends)

    def _wrapped(self, name: str, backend: AuditBackend) -> AuditBackend:
        """Add mode and truncation to a backend."""
        values = self.values
        if values[f"audit-{name}-truncate-enabled"]:
            backend = TruncateEvents(
                backend,
                max_event_size=values[f"audit-{name}-truncate-max-event-size"],
                max_batch_size=values[f"audit-{name}-truncate-max-batch-size"],
            )
        mode = values[f"audit-{name}-mode"]
        if mode == "batch":
            options = BatchOptions(
                buffer_size=values[f"audit-{name}-batch-buffer-size"],
                max_size=values[f"audit-{name}-batch-max-size"],
                max_wait=values[f"audit-{name}-batch-max-wait"],
                throttle=values[f"audit-{name}-batch-throttle-enable"],
                throttle_qps=values[f"audit-{name}-batch-throttle-qps"],
                throttle_burst=values[f"audit-{name}-batch-throttle-burst"],
            )
            options.check(name)
            return BatchBackend(backend, options)
        return backend if mode == "blocking-strict" else IgnoreErrors(backend)
