"""Webhooks: what the API server calls.

- `review`, `admission`: defaulting and validating of typed objects, or raw reviews
- `conversion`: between the versions of a kind, through a hub
- `identity`: token reviews and subject access reviews; `scheduler_extender`, `audit`: other extension points
- `certificates`: files, a managed authority, or made at start
- `server`: the HTTPS server
"""

from .admission import AdmissionHandler, Defaulter, Validator
from .audit import AuditSink
from .certificates import CertificateFiles, ManagedCertificates, SelfSignedCertificates
from .conversion import ConversionError, Converter, lost_fields
from .identity import AccessRequest, AccessReviewer, TokenReviewer, TokenReviewResult
from .review import AdmissionRequest, AdmissionResponse, Denied, InvalidReviewError, UserInfo
from .scheduler_extender import ExtenderBinding, SchedulerExtender
from .server import WebhookServer

__all__ = [
    "AccessRequest",
    "AccessReviewer",
    "AdmissionHandler",
    "AdmissionRequest",
    "AdmissionResponse",
    "AuditSink",
    "CertificateFiles",
    "ConversionError",
    "Converter",
    "Defaulter",
    "Denied",
    "ExtenderBinding",
    "InvalidReviewError",
    "ManagedCertificates",
    "SchedulerExtender",
    "SelfSignedCertificates",
    "TokenReviewResult",
    "TokenReviewer",
    "UserInfo",
    "Validator",
    "WebhookServer",
    "lost_fields",
]
