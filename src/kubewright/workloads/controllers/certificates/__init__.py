"""Controllers of CertificateSigningRequests.

- `approval`: approval of client certificates of kubelets (`certificatesigningrequest-approving-controller`)
- `signing`: signing by the cluster's certificate authority (`certificatesigningrequest-signing-controller`)
- `cleanup`: deletion of old requests (`certificatesigningrequest-cleaner-controller`)
- `requests`: checks of the requests of each signer; `authority`: certificates from requests
"""

from .approval import add_certificate_approving_controller
from .cleanup import add_certificate_cleaner_controller
from .signing import add_certificate_signing_controller

__all__ = [
    "add_certificate_approving_controller",
    "add_certificate_cleaner_controller",
    "add_certificate_signing_controller",
]
