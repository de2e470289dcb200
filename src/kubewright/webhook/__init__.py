"""Webhooks that the API server calls: admission, conversion and other extension points.

    server = WebhookServer(CertificateFiles("tls.crt", "tls.key"))
    server.add_admission("/mutate-shop", Defaulter(Shop, set_defaults))
    server.add_admission("/validate-shop", Validator(Shop, validate))
    manager.add(server)

- `review`: `AdmissionReview` requests and responses; `admission`: defaulting and validating of typed objects
- `conversion`: conversion between the versions of a kind, through a hub version; `conversion_rules`: rules
  for fields instead of code
- `identity`: token reviews and subject access reviews; `scheduler_extender`; `audit`: audit events
- `certificates`: serving certificates from files, from a managed CA in a Secret, or self-signed
- `server`: the HTTPS server
"""

from .admission import AdmissionHandler, Defaulter, Validator
from .audit import AuditSink
from .certificates import CertificateFiles, ManagedCertificates, SelfSignedCertificates
from .conversion import ConversionError, Converter, lost_fields
from .conversion_rules import DefaultHub, DefaultSpoke, FieldRule, MapValues, Move, Wrap
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
    "DefaultHub",
    "DefaultSpoke",
    "Defaulter",
    "Denied",
    "ExtenderBinding",
    "FieldRule",
    "InvalidReviewError",
    "ManagedCertificates",
    "MapValues",
    "Move",
    "SchedulerExtender",
    "SelfSignedCertificates",
    "TokenReviewResult",
    "TokenReviewer",
    "UserInfo",
    "Validator",
    "WebhookServer",
    "Wrap",
    "lost_fields",
]
