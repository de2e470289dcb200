"""Certificate signing requests: `certificates.k8s.io`.

Who asks is taken from the request. The spec never changes. Approving and denying go through `approval`, the
certificate through `status`; conditions that decide are never taken back.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kubewright.api.field_errors import quote
from kubewright.api.names import check_dns_label, check_dns_subdomain
from kubewright.apiserver.objects import Object, current_timestamp
from kubewright.apiserver.strategy import Operation
from kubewright.apiserver.subresource import Subresource
from kubewright.controlplane.kinds.kind import Kind, KindStrategy
from kubewright.controlplane.kinds.printing import AGE, NONE, column, field, shown
from kubewright.controlplane.kinds.validation.conditions import STATUSES
from kubewright.controlplane.kinds.validation.formats import Errors
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.columns import human_duration

USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system",
    "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc",
    "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip
_DECISIONS = ("Approved", "Denied", "Failed")
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_NOT_BOTH = "Approved and Denied conditions are mutually exclusive"


def signer_name_errors(name: str, path: str) -> Errors:
    """The name of a signer: a domain, a slash, a path."""
    if not name:
        return [fe.required(path, "")]
    segments = name.split("/")
    if len(segments) != 2:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [fe.invalid(path, name, text)]
    domain, rest = segments
    errors: Errors = [fe.too_long(path, 253)] if len(domain) > 253 else []
    labels = domain.split(".")
    errors += _label_errors(labels, check_dns_label, domain, path)
    if len(labels) < 2:
        text = "should be a domain with at least two segments separated by dots"
        errors.append(fe.invalid(path, domain, text))
    errors += _label_errors(rest.split("."), check_dns_subdomain, rest, path)
    if len(name) > 571:
        errors.append(fe.too_long(path, 571))
    return errors


def _label_errors(labels: Iterable[str], rule: Any, shown_as: str, path: str) -> Errors:
    for label in labels:
        wrong = rule(label)
        if wrong:
            return [fe.invalid(path, shown_as, f"validating label {quote(label)}: {text}") for text in wrong]
    return []


def _request_fault(encoded: str) -> str:
    """What is wrong with a PEM certificate request; empty if nothing is."""
    from cryptography import x509

    pem = _decoded(encoded)
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = x509.load_pem_x509_csr(pem)
    except ValueError:
        return "asn1: structure error: malformed certificate request"
    return "" if request.is_signature_valid else "x509: signature verification failed"


def _certificate_fault(encoded: str) -> str:
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


def _spec_errors(request: Object) -> Errors:
    spec = request.get("spec") or {}
    errors: Errors = []
    fault = _request_fault(spec.get("request") or "")
    if fault:
        errors.append(fe.invalid("spec.request", spec.get("request"), fault))
    usages = spec.get("usages") or []
    if not usages:
        errors.append(fe.required("spec.usages", ""))
    errors += [
        fe.not_supported(f"spec.usages[{position}]", usage, USAGES)
        for position, usage in enumerate(usages)
        if usage not in USAGES
    ]
    errors += [
        fe.duplicate(f"spec.usages[{position}]", usage)
        for position, usage in enumerate(usages)
        if usage in usages[:position]
    ]
    signer = spec.get("signerName") or ""
    if signer == _LEGACY_SIGNER:
        text = "the legacy signerName is not allowed via this API version"
        errors.append(fe.invalid("spec.signerName", signer, text))
    else:
        errors += signer_name_errors(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(fe.invalid("spec.expirationSeconds", seconds, text))
    return errors


def _condition_errors(request: Object, *, both: bool = False, repeated: bool = False) -> Errors:
    errors: Errors = []
    path = "status.conditions"
    seen: list[str] = []
    for position, condition in enumerate(field(request, "status.conditions", ())):
        where, name = f"{path}[{position}]", condition.get("type") or ""
        if not name:
            errors.append(fe.required(f"{where}.type", ""))
        allowed = ("True",) if name in _DECISIONS else STATUSES
        status = condition.get("status") or ""
        if not status:
            errors.append(fe.required(f"{where}.status", ""))
        elif status not in allowed:
            errors.append(fe.not_supported(f"{where}.status", status, allowed))
        opposite = {"Approved": "Denied", "Denied": "Approved"}.get(name)
        if not both and opposite in seen:
            errors.append(fe.invalid(path, name, _NOT_BOTH))
        if not repeated and name in seen:
            errors.append(fe.duplicate(f"{where}.type", name))
        seen.append(name)
    return errors


def _of_type(request: Object, name: str) -> list[Object]:
    return [one for one in field(request, "status.conditions", ()) if one.get("type") == name]


class CertificateRequestStrategy(KindStrategy):
    """Certificate signing requests."""

    status_subresources = ("status", "approval")

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """Any name will do."""
        return []

    def prepare_for_create(self, op: Operation, obj: Object) -> None:
        """The spec says who asks."""
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
        """The spec stays; every endpoint changes its own part of the status."""
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
            _stamp(condition, before.get("conditions") or ())
        obj["status"] = status

    def validate(self, op: Operation, obj: Object) -> Errors:
        """Of a new request."""
        return _spec_errors(obj)

    def validate_update(self, op: Operation, obj: Object, old: Object) -> Errors:
        """Decisions stay; only `approval` adds them, only `status` adds a certificate."""
        errors = _condition_errors(
            obj,
            both=bool(_of_type(old, "Approved") and _of_type(old, "Denied")),
            repeated=any("Duplicate" in error.message for error in _condition_errors(old)),
        )
        now, before = field(obj, "status.certificate", ""), field(old, "status.certificate", "")
        fault = _certificate_fault(now) if now != before else ""
        if fault:
            errors.append(fe.invalid("status.certificate", "<certificate data>", fault))
        path = "status.conditions"
        for name in _DECISIONS:
            if len(_of_type(obj, name)) < len(_of_type(old, name)):
                errors.append(fe.forbidden(path, f'updates may not remove a condition of type "{name}"'))
        if op.subresource != "approval":
            for name in _DECISIONS[:2]:
                if len(_of_type(obj, name)) > len(_of_type(old, name)):
                    errors.append(fe.forbidden(path, f'updates may not add a condition of type "{name}"'))
        if now != before and op.subresource != "status":
            errors.append(fe.forbidden("status.certificate", "updates may not set certificate content"))
        elif now != before and before:
            text = "updates may not modify existing certificate content"
            errors.append(fe.forbidden("status.certificate", text))
        return errors

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Every endpoint ignores the spec of an existing request."""
        return ("spec",) if subresource else ("spec", "status")


def _keep_decisions(status: Object, old: Object) -> None:
    conditions = list(status.get("conditions") or ())
    for name in _DECISIONS[:2]:
        places = [position for position, one in enumerate(conditions) if one.get("type") == name]
        known = _of_type(old, name)
        if len(places) == len(known):
            for position, condition in zip(places, known, strict=True):
                conditions[position] = dict(condition)
    if conditions:
        status["conditions"] = conditions


def _stamp(condition: Object, before: Iterable[Object]) -> None:
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


def _decision(request: Object) -> str:
    found = {condition.get("type") for condition in field(request, "status.conditions", ())}
    text = "Denied" if "Denied" in found else "Approved" if "Approved" in found else "Pending"
    if "Failed" in found:
        text += ",Failed"
    return text + ",Issued" if field(request, "status.certificate") else text


def _duration(request: Object) -> str:
    seconds = field(request, "spec.expirationSeconds")
    return NONE if seconds is None else human_duration(timedelta(seconds=seconds))


KINDS = {
    "certificatesigningrequests": Kind(
        strategy=CertificateRequestStrategy,
        subresources={"approval": Subresource(verbs=("get", "patch", "update"))},
        field_selectors={"spec.signerName": "spec.signerName"},
        columns=(
            AGE,
            column("SignerName", shown("spec.signerName", NONE), description="Who is to sign."),
            column("Requestor", shown("spec.username"), description="Who asks."),
            column("RequestedDuration", _duration, description="How long it is to be valid."),
            column("Condition", _decision, description="What has become of it."),
        ),
    ),
}
