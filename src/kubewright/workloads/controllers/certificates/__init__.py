"""Controllers of the requests for certificates, and of trust bundles.

- `approval`: approval of client certificates of kubelets (`certificatesigningrequest-approving-controller`)
- `serving_approval`: approval of serving certificates of kubelets (`kubelet-serving-approving-controller`)
- `signing`: signing by the cluster's certificate authority (`certificatesigningrequest-signing-controller`)
- `cleanup`: deletion of old requests (`certificatesigningrequest-cleaner-controller`,
  `podcertificaterequest-cleaner-controller`)
- `trust_bundle`: the authority of the API server's certificates
  (`kube-apiserver-serving-clustertrustbundle-publisher-controller`)
- `requests`: checks of the requests of each signer; `authority`: certificates from requests
"""

from .approval import add_certificate_approving_controller as add_certificate_approving_controller
from .cleanup import add_certificate_cleaner_controller as add_certificate_cleaner_controller
from .cleanup import add_pod_certificate_cleaner_controller as add_pod_certificate_cleaner_controller
from .serving_approval import (
    add_kubelet_serving_approving_controller as add_kubelet_serving_approving_controller,
)
from .signing import add_certificate_signing_controller as add_certificate_signing_controller
from .trust_bundle import add_trust_bundle_publisher as add_trust_bundle_publisher
