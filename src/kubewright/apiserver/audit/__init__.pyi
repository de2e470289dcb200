from .auditor import Auditor as Auditor
from .backends import AuditBackend as AuditBackend
from .batching import BatchBackend as BatchBackend
from .batching import BatchOptions as BatchOptions
from .event import AuditEvent as AuditEvent
from .log_file import LogBackend as LogBackend
from .options import AuditOptions as AuditOptions
from .policy import AuditLevel as AuditLevel
from .policy import AuditPolicy as AuditPolicy
from .policy import AuditRule as AuditRule
from .webhook import WebhookBackend as WebhookBackend

__all__ = [
    "AuditBackend",
    "AuditEvent",
    "AuditLevel",
    "AuditOptions",
    "AuditPolicy",
    "AuditRule",
    "Auditor",
    "BatchBackend",
    "BatchOptions",
    "LogBackend",
    "WebhookBackend",
]
