"""PodCertificateRequest: a kubelet requests a certificate for a pod from a signer.

The spec never changes. It has the public key as an empty certificate request, or, until 1.35, as a key and a
signature of the pod's UID. A signer writes the status once: it issues a certificate for that key whose
lifetime is in the limits of the request, denies the request, or reports a failure.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any

from kubewright.api.values.names import check_dns_subdomain
from kubewright.api.values.times import Duration
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import column, field, labels_text, shown
from kubewright.controlplane.kinds.validation import Errors, Immutable, UpdateRules
from kubewright.controlplane.kinds.validation.formats import CONDITIONS
from kubewright.schema import field_errors as fe

from .pem import pem_blocks
from .signers import MIN_LIFETIME, max_lifetime, signer_name_errors, user_annotation_errors

if TYPE_CHECKING:
    from cryptography import x509

OUTCOMES = ("Issued", "Denied", "Failed")
DEFAULT_LIFETIME = 24 * 60 * 60
MAX_KEY_SIZE = 10 * 1024
MAX_CHAIN_SIZE = 100 * 1024
MAX_UID_SIZE = 128
CLOCK_SKEW = timedelta(minutes=5)
REFRESH_MARGIN = timedelta(minutes=10)
_REQUEST = "spec.stubPKCS10Request"
_KEY = "spec.pkixPublicKey"
_PROOF = "spec.proofOfPossession"
_CHAIN = "status.certificateChain"
_NO_CHAIN = "issued certificate chain must contain at least one certificate"
_OTHER_BLOCKS = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
_RSA_SIZES = (3072, 4096)


class _Invalid(Exception):
    """The first error of a part that is not checked further."""

    def __init__(self, path: str, value: Any, text: str) -> None:
        self.error = fe.invalid(path, value, text)


# Requests


def _default(obj: Object) -> None:
    obj.setdefault("spec", {}).setdefault("maxExpirationSeconds", DEFAULT_LIFETIME)


def _uid_errors(uid: str, path: str) -> Errors:
    if not uid:
        return [fe.invalid(path, uid, "must not be empty")]
    return [fe.too_long(path, MAX_UID_SIZE)] if len(uid.encode()) > MAX_UID_SIZE else []


def _spec_errors(obj: Object) -> Errors:
    spec: Object = obj.get("spec") or {}
    signer = spec.get("signerName") or ""
    errors = signer_name_errors(signer, "spec.signerName")
    errors += user_annotation_errors(
        spec.get("unverifiedUserAnnotations") or {}, "spec.unverifiedUserAnnotations"
    )
    for name, uid in (
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ):
        value = spec.get(name) or ""
        errors += [fe.invalid(f"spec.{name}", value, text) for text in check_dns_subdomain(value)]
        errors += _uid_errors(spec.get(uid) or "", f"spec.{uid}")
    seconds, path = spec.get("maxExpirationSeconds"), "spec.maxExpirationSeconds"
    if seconds is None:
        return [*errors, fe.required(path, "must be set")]
    longest = max_lifetime(signer)
    if not MIN_LIFETIME <= seconds <= longest:
        errors.append(fe.invalid(path, seconds, f"must be in the range [{MIN_LIFETIME}, {longest}]"))
    return errors + _key_errors(spec)


def _key_errors(spec: Object) -> Errors:
    request, key, proof = (spec.get(path.removeprefix("spec.")) for path in (_REQUEST, _KEY, _PROOF))
    for value, path in ((request, _REQUEST), (key, _KEY), (proof, _PROOF)):
        if len(base64.b64decode(value or "")) > MAX_KEY_SIZE:
            return [fe.too_long(path, MAX_KEY_SIZE)]
    try:
        if request and not key and not proof:
            _check_request(request)
        elif key and proof and not request:
            _check_proof(key, proof, spec.get("podUID") or "")
        else:
            text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
            raise _Invalid("spec", fe.OMIT, text)
    except _Invalid as found:
        return [found.error]
    return []


def _check_request(encoded: str) -> None:
    request = _parsed_request(encoded)
    _check_key(request.public_key(), _REQUEST, fe.OMIT, "P256, P384, or P521")
    if not request.is_signature_valid:
        raise _Invalid(_REQUEST, fe.OMIT, "invalid signature")


def _parsed_request(encoded: str) -> x509.CertificateSigningRequest:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        request = x509.load_der_x509_csr(base64.b64decode(encoded))
        request.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise _Invalid(_REQUEST, fe.OMIT, "must be a valid PKCS#10 CSR") from None
    return request


def _parsed_key(encoded: str, shown_value: Any) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        return load_der_public_key(base64.b64decode(encoded))
    except (ValueError, UnsupportedAlgorithm):
        raise _Invalid(_KEY, shown_value, "must be a valid PKIX-serialized public key") from None


def _check_key(key: Any, path: str, shown_value: Any, curves: str) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ed25519.Ed25519PublicKey):
        return
    if isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1):
            name = f"curve P-{key.curve.key_size}"
            raise _Invalid(path, name, f"elliptic public keys must use curve {curves}")
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in _RSA_SIZES:
            text = "RSA keys must have modulus size 3072 or 4096"
            raise _Invalid(path, f"{key.key_size}-bit modulus", text)
    else:
        text = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
        raise _Invalid(path, shown_value, text)


def _check_proof(encoded: str, proof: str, uid: str) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    key = _parsed_key(encoded, encoded)
    _check_key(key, _KEY, encoded, "P256 or P384")
    signature, signed = base64.b64decode(proof), uid.encode()
    try:
        if isinstance(key, rsa.RSAPublicKey):
            pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO)
            key.verify(signature, signed, pss, hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(signature, signed)
    except InvalidSignature:
        raise _Invalid(_PROOF, fe.OMIT, "could not verify proof-of-possession signature") from None


# Decisions


def _outcomes(obj: Object) -> set[str]:
    return {condition.get("type") for condition in field(obj, "status.conditions", ())}.intersection(OUTCOMES)


def _status_errors(obj: Object, old: Object) -> Errors:
    errors = _condition_errors(obj)
    if errors:
        return errors
    status, before = obj.get("status") or {}, old.get("status") or {}
    outcome = _outcomes(obj)
    text = ""
    if _outcomes(old):
        if status != before:
            text = "immutable after PodCertificateRequest is issued, denied, or failed"
    elif outcome & {"Denied", "Failed"}:
        if any(value for name, value in status.items() if name != "conditions"):
            text = (
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            )
    elif outcome:
        return _issue_errors(status, old.get("spec") or {})
    elif status != before:
        text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    return [fe.invalid("status", fe.OMIT, text)] if text else []


def _condition_errors(obj: Object) -> Errors:
    conditions = field(obj, "status.conditions", ())
    errors: Errors = []
    known = 0
    for index, condition in enumerate(conditions):
        path, type_ = f"status.conditions.[{index}]", condition.get("type") or ""
        if type_ not in OUTCOMES:
            errors.append(fe.not_supported(f"{path}.type", type_, OUTCOMES))
            continue
        known += 1
        if known > 1:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(fe.invalid(f"{path}.type", type_, text))
        if condition.get("status") != "True":
            errors.append(fe.not_supported(f"{path}.status", condition.get("status") or "", ["True"]))
    return errors + CONDITIONS(conditions, "status.conditions")


def _issue_errors(status: Object, spec: Object) -> Errors:
    chain = status.get("certificateChain") or ""
    if len(chain.encode()) > MAX_CHAIN_SIZE:
        return [fe.too_long(_CHAIN, MAX_CHAIN_SIZE)]
    try:
        leaf = _leaf(chain)
        errors = _name_errors(leaf)
        _check_public_key(leaf, chain, spec)
        errors += _missing_time_errors(status)
        if errors:
            return errors
        _check_times(leaf, status, spec)
        _check_intermediates(chain)
    except _Invalid as found:
        return [found.error]
    return []


def _leaf(chain: str) -> x509.Certificate:
    first = next(pem_blocks(chain), None)
    if first is None:
        raise _Invalid(_CHAIN, chain, _NO_CHAIN)
    if first.type != "CERTIFICATE":
        raise _Invalid(_CHAIN, chain, _OTHER_BLOCKS)
    return _certificate(first.text, chain, "leaf")


def _certificate(text: str, chain: str, which: str) -> x509.Certificate:
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(text.encode())
        found.extensions  # noqa: B018 - parsed at the first access
    except ValueError:
        raise _Invalid(_CHAIN, chain, f"{which} certificate does not parse as valid X.509") from None
    return found


def _name_errors(leaf: x509.Certificate) -> Errors:
    from cryptography import x509

    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    errors: Errors = []
    for name in names.get_values_for_type(x509.DNSName):
        if not name:
            errors.append(fe.invalid(_CHAIN, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            text = "leaf certificate's DNSName should not contain '..'"
            errors.append(fe.invalid(_CHAIN, name, text))
        if name.startswith(".") or name.endswith("."):
            text = "leaf certificate's DNSName should not start or end with '.'"
            errors.append(fe.invalid(_CHAIN, name, text))
    for address in names.get_values_for_type(x509.RFC822Name):
        if "@" not in parseaddr(address)[1]:
            text = "leaf certificate should not contain invalid EmailAddress"
            errors.append(fe.invalid(_CHAIN, address, text))
    return errors


def _check_public_key(leaf: x509.Certificate, chain: str, spec: Object) -> None:
    request = spec.get("stubPKCS10Request")
    wanted = (
        _parsed_request(request).public_key()
        if request
        else _parsed_key(spec.get("pkixPublicKey") or "", fe.OMIT)
    )
    if leaf.public_key() != wanted:
        raise _Invalid(_CHAIN, chain, "leaf certificate was not issued to the requested public key")


def _missing_time_errors(status: Object) -> Errors:
    same = "must be present and consistent with the issued certificate"
    texts = {
        "notBefore": same,
        "notAfter": same,
        "beginRefreshAt": "must be present and in the range [notbefore+10min, notafter-10min]",
    }
    return [fe.required(f"status.{name}", text) for name, text in texts.items() if not status.get(name)]


def _check_times(leaf: x509.Certificate, status: Object, spec: Object) -> None:
    begin, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    for name, moment, label in (("notBefore", begin, "NotBefore"), ("notAfter", end, "NotAfter")):
        path, value = f"status.{name}", status[name]
        if datetime.fromisoformat(value) != moment:
            raise _Invalid(path, value, f"must be set to the {label} time encoded in the leaf certificate")
        if name == "notBefore" and abs(moment - datetime.now(UTC)) >= CLOCK_SKEW:
            raise _Invalid(path, value, "must be set to within 5 minutes of kube-apiserver's current time")
    lifetime, limit = end - begin, spec.get("maxExpirationSeconds") or 0
    shown_lifetime = str(Duration(lifetime))
    if lifetime < timedelta(seconds=MIN_LIFETIME):
        raise _Invalid(_CHAIN, shown_lifetime, "leaf certificate lifetime must be >= 1 hour")
    if lifetime > timedelta(seconds=limit):
        text = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({limit})"
        raise _Invalid(_CHAIN, shown_lifetime, text)
    path, value = "status.beginRefreshAt", status["beginRefreshAt"]
    refresh = datetime.fromisoformat(value)
    if refresh < begin + REFRESH_MARGIN:
        raise _Invalid(path, value, "must be at least 10 minutes after status.notBefore")
    if refresh > end - REFRESH_MARGIN:
        raise _Invalid(path, value, "must be at least 10 minutes before status.notAfter")


def _check_intermediates(chain: str) -> None:
    blocks = pem_blocks(chain)
    next(blocks)
    for block in blocks:
        if block.type != "CERTIFICATE":
            raise _Invalid(_CHAIN, chain, _OTHER_BLOCKS)
        _certificate(block.text, chain, "intermediate")


def _state(obj: Object) -> str:
    return next(iter(_outcomes(obj)), "Pending")


KINDS = {
    "podcertificaterequests": Kind(
        default=_default,
        validate=_spec_errors,
        validate_update=UpdateRules({"spec": Immutable()}),
        validate_status=_status_errors,
        allow_unconditional_update=False,
        status_keeps_metadata=True,
        field_selectors={name: name for name in ("spec.nodeName", "spec.podName", "spec.signerName")},
        columns=(
            column("PodName", shown("spec.podName"), description="Pod that gets the certificate."),
            column(
                "ServiceAccountName", shown("spec.serviceAccountName"), description="Its service account."
            ),
            column("NodeName", shown("spec.nodeName"), description="Node of the pod."),
            column("SignerName", shown("spec.signerName"), description="Requested signer."),
            column("State", _state, description="Pending, Issued, Denied or Failed."),
            column(
                "UnverifiedUserAnnotations",
                lambda obj: labels_text(field(obj, "spec.unverifiedUserAnnotations")),
                description="Annotations for the signer.",
                wide=True,
            ),
        ),
    ),
}
