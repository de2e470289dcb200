"""Webhooks: what the API server calls.

- `review`, `admission`: defaulting and validating of typed objects, or raw reviews
- `conversion`: between the versions of a kind, through a hub
- `certificates`: files, a managed authority, or made at start
- `server`: the HTTPS server
"""

from .admission import Defaulter, Handler, Validator
from .certificates import CertificateFiles, DevelopmentCertificates, ManagedCertificates
from .conversion import ConversionError, Converter, lost_fields
from .review import AdmissionRequest, AdmissionResponse, BadReview, Denied, UserInfo
from .server import WebhookServer

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "BadReview",
    "CertificateFiles",
    "ConversionError",
    "Converter",
    "Defaulter",
    "Denied",
    "DevelopmentCertificates",
    "Handler",
    "ManagedCertificates",
    "UserInfo",
    "Validator",
    "WebhookServer",
    "lost_fields",
]
