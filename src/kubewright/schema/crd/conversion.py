"""Validation of a CRD's conversion, and of webhook client configurations, which admission webhooks share."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final
from urllib.parse import urlsplit

from kubewright.api.field_errors import FieldError
from kubewright.api.values import names
from kubewright.api.values.go_format import quote
from kubewright.schema import field_errors as fe

_REVIEW_VERSIONS: Final = ("v1", "v1beta1")


def enum_errors(path: str, value: str, accepted: tuple[str, ...]) -> list[FieldError]:
    """Return the errors of a required enum value."""
    if not value:
        return [fe.required(path)]
    return [] if value in accepted else [fe.not_supported(path, value, accepted)]


def conversion_errors(
    conversion: dict[str, Any] | None, old: dict[str, Any] | None = None, *, established: bool = False
) -> list[FieldError]:
    """Return the errors of `spec.conversion`; `established` is whether the CRD is served."""
    if conversion is None:
        return []
    path, strategy = "spec.conversion", conversion.get("strategy") or ""
    errors = enum_errors(f"{path}.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            errors.append(fe.forbidden(f"{path}.webhookClientConfig", text))
        if reviews:
            errors.append(fe.forbidden(f"{path}.conversionReviewVersions", text))
        return errors
    where = f"{path}.webhookClientConfig"
    if client is None:
        errors.append(fe.required(where, "required when strategy is set to Webhook"))
    else:
        url, service = client.get("url"), client.get("service")
        if (url is None) == (service is None):
            errors.append(fe.required(where, "exactly one of url or service is required"))
        elif url is not None:
            errors += webhook_url_errors(f"{where}.url", url)
        else:
            errors += webhook_service_errors(f"{where}.service", service)
        bundle = client.get("caBundle") or ""
        if bundle and established and _bundle_was_valid(old):
            problem = ca_bundle_problem(bundle)
            if problem:
                errors.append(fe.invalid(f"{where}.caBundle", bundle, problem))
    stored = ((old or {}).get("webhook") or {}).get("conversionReviewVersions") or []
    lenient = bool(stored) and not any(version in _REVIEW_VERSIONS for version in stored)
    return errors + _review_version_errors(reviews, f"{path}.conversionReviewVersions", lenient)


def _bundle_was_valid(old: dict[str, Any] | None) -> bool:
    client = ((old or {}).get("webhook") or {}).get("clientConfig") or {}
    bundle = client.get("caBundle") or ""
    return not bundle or not ca_bundle_problem(bundle)


def _review_version_errors(versions: list[str], path: str, lenient: bool) -> list[FieldError]:
    if not versions:
        return [fe.required(path)]
    errors: list[FieldError] = []
    for position, version in enumerate(versions):
        if version in versions[:position]:
            errors.append(fe.invalid(f"{path}[{position}]", version, "duplicate version"))
            continue
        for text in names.check_dns_1035_label(version):
            errors.append(fe.invalid(f"{path}[{position}]", version, text))
    if not lenient and not any(version in _REVIEW_VERSIONS for version in versions):
        errors.append(
            fe.invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
        )
    return errors


def webhook_url_errors(path: str, url: str) -> list[FieldError]:
    """Return the errors of a webhook URL."""
    from kubewright.cel.library.url import malformation  # imports the CEL library, rarely needed

    form = "; desired format: https://host[/path]"
    if problem := malformation(url):
        return [fe.required(path, f"url must be a valid URL: parse {quote(url)}: {problem}{form}")]
    parts = urlsplit(url)
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(fe.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(fe.invalid(path, host, f"host must be specified{form}"))
    if at:
        errors.append(fe.invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(fe.invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(fe.invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def webhook_service_errors(path: str, service: dict[str, Any]) -> list[FieldError]:
    """Return the errors of a webhook's service reference.

    kube-apiserver reports a missing name at `namespace` and a missing namespace at `name`.
    """
    swapped = (("namespace", "name"), ("name", "namespace"))
    errors = [fe.required(f"{path}.{reported}") for missing, reported in swapped if not service.get(missing)]
    port = service.get("port", 443)
    if problems := names.check_port_number(port):
        errors.append(fe.invalid(f"{path}.port", port, "port is not valid: " + ", ".join(problems)))
    url_path = service.get("path")
    if url_path in (None, "", "/"):
        return errors
    where = f"{path}.path"
    if url_path == "//":
        return [*errors, fe.invalid(where, url_path, "segment[0] may not be empty")]
    if not url_path.startswith("/"):
        errors.append(fe.invalid(where, url_path, "must start with a '/'"))
    for position, step in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(fe.invalid(where, url_path, f"segment[{position}] may not be empty"))
        else:
            errors += [
                fe.invalid(where, url_path, f"segment[{position}]: {text}")
                for text in names.check_dns_subdomain(step)
            ]
    return errors


def ca_bundle_problem(bundle: str) -> str:
    """Return why base64 text is not a certificate bundle, or an empty string."""
    from cryptography import x509

    try:
        if x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True)):
            return ""
    except (ValueError, binascii.Error):
        pass
    return "unable to load root certificates: unable to parse bytes as PEM block"
