"""CertificateSigningRequest.

The user, groups and extra fields of the spec come from the authenticated request, and the spec never changes.
Conditions that approve or deny are written through `approval`, the certificate through `status`; neither can
be removed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from kubewright.api.values.go_format import quote
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.apiserver.resources.strategy import Operation
from kubewright.apiserver.resources.subresource import Subresource
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NONE, column, field, shown
from kubewright.controlplane.kinds.validation import Check, Enum, Errors, Minimum, Required, Rules, Unique
from kubewright.controlplane.kinds.validation.formats import STATUSES, choice
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.columns import human_duration

from .signers import signer_name_errors

if TYPE_CHECKING:
    from cryptography import x509

USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system",
    "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc",
    "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip
_DECISIONS = ("Approved", "Denied", "Failed")
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_OPPOSITES = {"Approved": "Denied", "Denied": "Approved"}
_CONDITIONS = "status.conditions"


def _request_errors(spec: Object, path: str) -> Errors:
    request = spec.get("request")
    error = _request_error(request or "")
    return [fe.invalid(f"{path}.request", request, error)] if error else []


def _request_error(encoded: str) -> str:
    from cryptography import x509

    pem = _decoded(encoded)
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = x509.load_pem_x509_csr(pem)
    except ValueError:
        return "asn1: structure error: malformed certificate request"
    return "" if _is_signature_valid(request) else "x509: signature verification failed"


def _is_signature_valid(request: x509.CertificateSigningRequest) -> bool:
    """Verify the signature. kube-apiserver accepts SHA-1, which the library rejects."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    try:
        algorithm = request.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return False
    if not isinstance(algorithm, hashes.SHA1):
        return request.is_signature_valid
    key, signed = request.public_key(), request.tbs_certrequest_bytes
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(request.signature, signed, padding.PKCS1v15(), algorithm)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(request.signature, signed, ec.ECDSA(algorithm))
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _certificate_error(encoded: str) -> str:
    from cryptography import x509

    if not encoded:
        return ""
    pem = _decoded(encoded)
    lines = [line for line in pem.decode("utf-8", "replace").splitlines() if line.startswith("-----BEGIN ")]
    for line in lines:
        kind = line.removeprefix("-----BEGIN ").removesuffix("-----")
        if kind != "CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {quote(kind)}"
    if not lines:
        return "must contain at least one CERTIFICATE PEM block"
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        return "x509: malformed certificate"
    return ""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _not_legacy_signer(name: str, path: str) -> Errors:
    if name != _LEGACY_SIGNER:
        return signer_name_errors(name, path)
    return [fe.invalid(path, name, "the legacy signerName is not allowed via this API version")]


RULES = Rules(
    {
        "spec": Check(_request_errors, absent={}),
        "spec.usages": Required(),
        "spec.usages[*]": [Enum(*USAGES), Unique(last=True)],
        "spec.signerName": [Required(), _not_legacy_signer],
        "spec.expirationSeconds": Minimum(
            600, "may not specify a duration less than 600 seconds (10 minutes)"
        ),
    }
)


def _condition_errors(obj: Object, *, allow_both: bool = False, allow_repeated: bool = False) -> Errors:
    errors: Errors = []
    seen: list[str] = []
    for index, condition in enumerate(field(obj, _CONDITIONS, ())):
        path, type_ = f"{_CONDITIONS}[{index}]", condition.get("type") or ""
        if not type_:
            errors.append(fe.required(f"{path}.type", ""))
        allowed = ("True",) if type_ in _DECISIONS else STATUSES
        errors += choice(condition.get("status"), allowed, f"{path}.status")
        if not allow_both and _OPPOSITES.get(type_) in seen:
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(fe.invalid(_CONDITIONS, type_, text))
        if not allow_repeated and type_ in seen:
            errors.append(fe.duplicate(f"{path}.type", type_))
        seen.append(type_)
    return errors


def _of_type(obj: Object, type_: str) -> list[Object]:
    return [condition for condition in field(obj, _CONDITIONS, ()) if condition.get("type") == type_]


class CertificateSigningRequestStrategy(KindStrategy):
    """Sets the requesting user, and restricts what each endpoint can change."""

    status_subresources = ("status", "approval")

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """Set the requesting user."""
        spec = obj.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        user = op.user
        for name, value in (("username", user.name), ("uid", user.uid)):
            if value:
                spec[name] = value
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}

    def prepare_for_update(self, op: Operation, obj: Object, old: Object) -> None:
        """Restore the spec and the parts of the status that the endpoint must not change."""
        obj["spec"] = old["spec"]
        if not op.subresource:
            return
        status: Object = dict(obj.get("status") or {})
        before = old.get("status") or {}
        if op.subresource == "status":
            _keep_decisions(status, old)
        elif "certificate" in before:
            status["certificate"] = before["certificate"]
        else:
            status.pop("certificate", None)
        for condition in status.get("conditions") or ():
            _set_times(condition, before.get("conditions") or ())
        obj["status"] = status

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Errors:
        """Validate conditions and certificate; `approval` adds decisions, `status` the certificate."""
        errors = _condition_errors(
            obj,
            allow_both=bool(_of_type(old, "Approved") and _of_type(old, "Denied")),
            allow_repeated=any(error.reason == "FieldValueDuplicate" for error in _condition_errors(old)),
        )
        now, before = field(obj, "status.certificate", ""), field(old, "status.certificate", "")
        error = _certificate_error(now) if now != before else ""
        if error:
            errors.append(fe.invalid("status.certificate", "<certificate data>", error))
        for type_ in _DECISIONS:
            if len(_of_type(obj, type_)) < len(_of_type(old, type_)):
                text = f'updates may not remove a condition of type "{type_}"'
                errors.append(fe.forbidden(_CONDITIONS, text))
        for type_ in _OPPOSITES if op.subresource != "approval" else ():
            if len(_of_type(obj, type_)) > len(_of_type(old, type_)):
                errors.append(fe.forbidden(_CONDITIONS, f'updates may not add a condition of type "{type_}"'))
        if now != before and op.subresource != "status":
            errors.append(fe.forbidden("status.certificate", "updates may not set certificate content"))
        elif now != before and before:
            text = "updates may not modify existing certificate content"
            errors.append(fe.forbidden("status.certificate", text))
        return errors

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that an endpoint ignores."""
        return ("spec",) if subresource else ("spec", "status")


def _keep_decisions(status: Object, old: Object) -> None:
    conditions = list(status.get("conditions") or ())
    for type_ in _OPPOSITES:
        indexes = [index for index, condition in enumerate(conditions) if condition.get("type") == type_]
        known = _of_type(old, type_)
        if len(indexes) == len(known):
            for index, condition in zip(indexes, known, strict=True):
                conditions[index] = dict(condition)
    if conditions:
        status["conditions"] = conditions


def _set_times(condition: Object, before: Iterable[Object]) -> None:
    if not condition.get("lastUpdateTime"):
        condition["lastUpdateTime"] = current_timestamp()
    if not condition.get("lastTransitionTime"):
        same = (
            one["lastTransitionTime"]
            for one in before
            if one.get("type") == condition.get("type")
            and one.get("status") == condition.get("status")
            and one.get("lastTransitionTime")
        )
        condition["lastTransitionTime"] = next(same, current_timestamp())


def _condition_text(obj: Object) -> str:
    found = {condition.get("type") for condition in field(obj, _CONDITIONS, ())}
    text = "Denied" if "Denied" in found else "Approved" if "Approved" in found else "Pending"
    if "Failed" in found:
        text += ",Failed"
    return text + ",Issued" if field(obj, "status.certificate") else text


def _duration_text(obj: Object) -> str:
    seconds = field(obj, "spec.expirationSeconds")
    return NONE if seconds is None else human_duration(timedelta(seconds=seconds))


KINDS = {
    "certificatesigningrequests": Kind(
        strategy=CertificateSigningRequestStrategy,
        validate=RULES,
        validate_name=lambda name, prefix=False: [],
        subresources={"approval": Subresource(verbs=("get", "patch", "update"))},
        field_selectors={"spec.signerName": "spec.signerName"},
        columns=(
            AGE,
            column("SignerName", shown("spec.signerName", NONE), description="Requested signer."),
            column("Requestor", shown("spec.username"), description="User who made the request."),
            column("RequestedDuration", _duration_text, description="Requested validity."),
            column("Condition", _condition_text, description="State of the request."),
        ),
    ),
}
