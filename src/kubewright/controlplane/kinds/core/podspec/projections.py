"""Projected volumes: files of several sources in one folder, with paths that do not overlap.

Sources are keys of secrets and config maps, fields of the pod, tokens of its service account, trust bundles,
and certificates that a signer issues for the pod.
"""

from __future__ import annotations

from collections.abc import Callable

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.certificates.signers import (
    MIN_LIFETIME,
    bundle_name_errors,
    max_lifetime,
    signer_name_errors,
    signer_of_bundle,
    user_annotation_errors,
)
from kubewright.controlplane.kinds.validation import FILE_MODE, Errors, Required, Rules
from kubewright.controlplane.kinds.validation.formats import plain_path
from kubewright.schema import field_errors as fe

from .references import VOLUME_FIELDS, check_field_reference, check_resource_reference
from .scheduling import format_selector, selector_errors

KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_SOURCES = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)
_REQUIRED = Required()
_DOWNWARD_PATH = Rules({"path": [_REQUIRED, plain_path]})
MODE = Rules({"mode": FILE_MODE})
KEY_TO_PATH = Rules({"key": _REQUIRED, "path": [_REQUIRED, plain_path], "mode": FILE_MODE})

Claim = Callable[[str | None, str | None], None]
"""Reports a path that another source has, with the value of the message."""


def check_downward_file(item: Object, path: str) -> Errors:
    """Check a file that shows a field of the pod."""
    errors = _DOWNWARD_PATH(item, path)
    if item.get("fieldRef") is not None:
        errors += check_field_reference(item["fieldRef"], VOLUME_FIELDS, f"{path}.fieldRef")
        if item.get("resourceFieldRef") is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(fe.invalid(path, "resource", text))
    elif item.get("resourceFieldRef") is not None:
        errors += check_resource_reference(
            item["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=True
        )
    else:
        errors.append(fe.required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors


def check_projections(projections: list[Object], path: str) -> Errors:
    """Check the sources of a projected volume, whose paths must differ."""
    errors: Errors = []
    paths: set[str] = set()
    volume = path.removesuffix(".sources")

    def claim(file: str | None, shown: str | None) -> None:
        if file and file in paths:
            errors.append(fe.invalid(volume, shown or "", "conflicting duplicate paths"))
        paths.add(file or "")

    for index, projection in enumerate(projections):
        where = f"{path}[{index}]"
        for kind in ("secret", "configMap"):
            source = projection.get(kind)
            if source is None:
                continue
            if not source.get("name"):
                errors.append(fe.required(f"{where}.{kind}.name", ""))
            for position, item in enumerate(source.get("items") or ()):
                errors += KEY_TO_PATH(item, f"{where}.{kind}.items[{position}]")
                claim(item.get("path"), source.get("name"))
        for position, item in enumerate((projection.get("downwardAPI") or {}).get("items") or ()):
            file = f"{where}.downwardAPI.items[{position}]"
            errors += check_downward_file(item, file) + MODE(item, file)
            claim(item.get("path"), item.get("path"))
        token = projection.get("serviceAccountToken")
        if token is not None:
            errors += _token_errors(token, f"{where}.serviceAccountToken", volume)
            claim(token.get("path"), token.get("path"))
        bundle = projection.get("clusterTrustBundle")
        if bundle is not None:
            errors += _bundle_errors(bundle, f"{where}.clusterTrustBundle")
            claim(bundle.get("path"), bundle.get("path"))
        certificate = projection.get("podCertificate")
        if certificate is not None:
            _check_certificate(certificate, f"{where}.podCertificate", errors, claim)
        if sum(projection.get(kind) is not None for kind in _SOURCES) > 1:
            errors.append(fe.forbidden(where, "may not specify more than 1 volume type per source"))
    return errors


def _token_errors(token: Object, path: str, volume: str) -> Errors:
    errors: Errors = []
    seconds, text = token.get("expirationSeconds") or 0, ""
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
    if text:
        errors.append(fe.invalid(f"{path}.expirationSeconds", seconds, text))
    if not token.get("path"):
        return [*errors, fe.required(f"{volume}.path", "")]
    return errors + plain_path(token["path"], f"{path}.path")


def _bundle_errors(bundle: Object, path: str) -> Errors:
    name, signer, selector = (bundle.get(field) for field in ("name", "signerName", "labelSelector"))
    errors: Errors = []
    if name is not None and signer is not None:
        errors.append(fe.invalid(path, bundle, "only one of name and signerName may be used"))
    elif name is not None:
        where = f"{path}.name"
        if not name:
            errors.append(fe.required(where, "must be a valid object name"))
        errors += [
            fe.invalid(where, name, f"not a valid clustertrustbundlename: {text}")
            for text in bundle_name_errors(name, signer_of_bundle(name))
        ]
        if selector is not None:
            text = "labelSelector must be unset if name is specified"
            errors.append(fe.invalid(f"{path}.labelSelector", format_selector(selector), text))
    elif signer is not None:
        where = f"{path}.signerName"
        if not signer:
            errors.append(fe.required(where, "must be a valid signer name"))
        errors += signer_name_errors(signer, where) + selector_errors(selector, f"{path}.labelSelector")
    else:
        errors.append(fe.required(path, "either name or signerName must be specified"))
    file = bundle.get("path") or ""
    if not file:
        errors.append(fe.required(f"{path}.path", ""))
    return errors + plain_path(file, f"{path}.path")


def _check_certificate(certificate: Object, path: str, errors: Errors, claim: Claim) -> None:
    signer = certificate.get("signerName") or ""
    errors += signer_name_errors(signer, f"{path}.signerName")
    errors += user_annotation_errors(certificate.get("userAnnotations") or {}, f"{path}.userAnnotations")
    key_type = certificate.get("keyType") or ""
    if key_type not in KEY_TYPES:
        errors.append(fe.not_supported(f"{path}.keyType", key_type, KEY_TYPES))
    seconds, longest = certificate.get("maxExpirationSeconds"), max_lifetime(signer)
    if seconds is not None and not MIN_LIFETIME <= seconds <= longest:
        limit = f">= {MIN_LIFETIME}" if seconds < MIN_LIFETIME else f"<= {longest}"
        text = f"if provided, maxExpirationSeconds must be {limit}"
        errors.append(fe.invalid(f"{path}.maxExpirationSeconds", seconds, text))
    files = ("credentialBundlePath", "keyPath", "certificateChainPath")
    for field in files:
        file = certificate.get(field)
        if file:
            errors += plain_path(file, f"{path}.{field}")
            claim(file, file)
    if not any(certificate.get(field) for field in files):
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(fe.required(path, text))
