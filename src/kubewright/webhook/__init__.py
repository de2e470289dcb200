"""Webhooks: what the API server calls.

- `review`, `admission`: defaulting and validating of typed objects, or raw reviews
- `conversion`: between the versions of a kind, through a hub
- `identity`: token reviews and subject access reviews; `scheduler_extender`, `audit`: other extension points
- `certificates`: files, a managed authority, or made at start
- `server`: the HTTPS server
"""

from .admission import Defaulter, Handler, Validator
from .audit import AuditSink
from .certificates import CertificateFiles, DevelopmentCertificates, ManagedCertificates
from .conversion import ConversionError, Converter, lost_fields
from .identity import AccessRequest, AccessReviewer, Authenticated, TokenReviewer
from .review import AdmissionRequest, AdmissionResponse, BadReview, Denied, UserInfo
from .scheduler_extender import Binding, SchedulerExtender
from .server import WebhookServer

__all__ = [
    "AccessRequest",
    "AccessReviewer",
    "AdmissionRequest",
    "AdmissionResponse",
    "AuditSink",
    "Authenticated",
    "BadReview",
    "Binding",
    "CertificateFiles",
    "ConversionError",
    "Converter",
    "Defaulter",
    "Denied",
    "DevelopmentCertificates",
    "Handler",
    "ManagedCertificates",
    "SchedulerExtender",
    "TokenReviewer",
    "UserInfo",
    "Validator",
    "WebhookServer",
    "lost_fields",
]
