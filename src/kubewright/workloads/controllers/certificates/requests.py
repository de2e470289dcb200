"""Checks of certificate requests: which subject, names and usages each signer of Kubernetes accepts."""

from __future__ import annotations

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubewright.api.certificates.v1 import CertificateSigningRequest
from kubewright.api.conditions import is_condition_true

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN)

_SERVING_USAGES = {"digital signature", "key encipherment", "server auth"}
_CLIENT_USAGES = {"digital signature", "key encipherment", "client auth"}


class InvalidRequest(ValueError):
    """A request does not meet the rules of its signer."""


def parse_request(obj: CertificateSigningRequest) -> x509.CertificateSigningRequest:
    """Parse the request of an object; raises `InvalidRequest`."""
    data = (obj.spec.request if obj.spec is not None else None) or b""
    try:
        return x509.load_pem_x509_csr(data)
    except ValueError as error:
        raise InvalidRequest(f'unable to parse csr "{obj.name}": {error}') from None


def is_approved(obj: CertificateSigningRequest) -> bool:
    """Whether a request is approved and not denied."""
    return is_condition_true(obj.status, "Approved") and not is_condition_true(obj.status, "Denied")


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Return the common name of the subject, the user name of a client."""
    return _names(request, NameOID.COMMON_NAME)[0] if _names(request, NameOID.COMMON_NAME) else ""


def check_request(signer: str, request: x509.CertificateSigningRequest, usages: list[str]) -> None:
    """Check a request for a signer; raises `InvalidRequest`."""
    if signer == CLIENT:
        _check_client_usages(usages)
    elif signer == KUBELET_CLIENT:
        check_kubelet_client(request, usages)
    elif signer == KUBELET_SERVING:
        _check_kubelet_serving(request, usages)


def check_kubelet_client(request: x509.CertificateSigningRequest, usages: list[str]) -> None:
    """Check a request for the client certificate of a kubelet; raises `InvalidRequest`."""
    _check_node_subject(request)
    names = alternative_names(request)
    for kind, text in (
        (x509.DNSName, "DNS subjectAltNames are not allowed"),
        (x509.RFC822Name, "Email subjectAltNames are not allowed"),
        (x509.IPAddress, "IP subjectAltNames are not allowed"),
        (x509.UniformResourceIdentifier, "URI subjectAltNames are not allowed"),
    ):
        if any(isinstance(name, kind) for name in names):
            raise InvalidRequest(text)
    _check_usages(usages, _CLIENT_USAGES)


def _check_kubelet_serving(request: x509.CertificateSigningRequest, usages: list[str]) -> None:
    _check_node_subject(request, name_first=False)
    names = alternative_names(request)
    if not any(isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
        raise InvalidRequest("DNS or IP subjectAltName is required")
    if any(isinstance(name, x509.RFC822Name) for name in names):
        raise InvalidRequest("Email subjectAltNames are not allowed")
    if any(isinstance(name, x509.UniformResourceIdentifier) for name in names):
        raise InvalidRequest("URI subjectAltNames are not allowed")
    _check_usages(usages, _SERVING_USAGES)
    if not common_name(request).startswith("system:node:"):
        raise InvalidRequest("subject common name does not begin with system:node:")


def _check_node_subject(request: x509.CertificateSigningRequest, *, name_first: bool = True) -> None:
    if _names(request, NameOID.ORGANIZATION_NAME) != ["system:nodes"]:
        raise InvalidRequest("subject organization is not system:nodes")
    if name_first and not common_name(request).startswith("system:node:"):
        raise InvalidRequest("subject common name does not begin with system:node:")


def _check_usages(usages: list[str], allowed: set[str]) -> None:
    # Keys that are not RSA keys cannot encipher other keys.
    if set(usages) not in (allowed, allowed - {"key encipherment"}):
        raise InvalidRequest(f"usages did not match [{' '.join(sorted(allowed))}]")


def _check_client_usages(usages: list[str]) -> None:
    for usage in usages:
        if usage not in _CLIENT_USAGES:
            raise InvalidRequest(f"invalid usage for client certificate: {usage}")
    if "client auth" not in usages:
        raise InvalidRequest("missing required usage for client certificate: client auth")


def _names(request: x509.CertificateSigningRequest, kind: x509.ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in request.subject.get_attributes_for_oid(kind)]


def alternative_names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    """Return the names in the extension subjectAltName."""
    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []
