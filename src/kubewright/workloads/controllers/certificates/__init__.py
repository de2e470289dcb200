"""Controllers of CertificateSigningRequests.

- `approval`: approval of client certificates of kubelets (`certificatesigningrequest-approving-controller`)
- `serving_approval`: approval of serving certificates of kubelets (`kubelet-serving-approving-controller`)
- `signing`: signing by the cluster's certificate authority (`certificatesigningrequest-signing-controller`)
- `cleanup`: deletion of old requests (`certificatesigningrequest-cleaner-controller`)
- `requests`: checks of the requests of each signer; `authority`: certificates from requests
"""

from .approval import add_certificate_approving_controller
from .cleanup import add_certificate_cleaner_controller
from .serving_approval import add_kubelet_serving_approving_controller
from .signing import add_certificate_signing_controller

__all__ = [
    "add_certificate_approving_controller",
    "add_certificate_cleaner_controller",
    "add_certificate_signing_controller",
    "add_kubelet_serving_approving_controller",
]
