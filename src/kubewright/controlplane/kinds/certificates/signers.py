"""Signers: names, names of their trust bundles, lifetimes of their certificates for pods, and annotations.

A signer is a domain and a path (`example.com/signer`). Its trust bundles have names that begin with
`example.com:signer:`. Signers of Kubernetes issue certificates for pods for
at most a day, others for 91 days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kubewright.api.values.go_format import quote
from kubewright.api.values.names import check_dns_label, check_dns_subdomain, check_qualified_name
from kubewright.controlplane.kinds.validation import Errors
from kubewright.schema import field_errors as fe

MIN_LIFETIME = 60 * 60
MAX_LIFETIME = 91 * 24 * 60 * 60
MAX_KUBERNETES_LIFETIME = 24 * 60 * 60
_MAX_ANNOTATIONS = 256 * 1024


def signer_name_errors(name: str, path: str) -> Errors:
    """Validate a signer name: a domain, a slash, a path."""
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


def _label_errors(labels: Iterable[str], check: Callable[[str], list[str]], value: str, path: str) -> Errors:
    for label in labels:
        messages = check(label)
        if messages:
            return [fe.invalid(path, value, f"validating label {quote(label)}: {text}") for text in messages]
    return []


def bundle_name_errors(name: str, signer: str) -> list[str]:
    """Check the name of the trust bundle of a signer, or of no signer."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return check_dns_subdomain(name)
    prefix = signer.replace("/", ":") + ":"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return check_dns_subdomain(name.removeprefix(prefix))


def signer_of_bundle(name: str) -> str:
    """Return the signer that the name of a trust bundle refers to; empty for a bundle without a signer."""
    return name.rpartition(":")[0].replace(":", "/")


def max_lifetime(signer: str) -> int:
    """Return for how many seconds a signer may issue certificates for pods."""
    domain = signer.partition("/")[0]
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return MAX_KUBERNETES_LIFETIME
    return MAX_LIFETIME


def user_annotation_errors(annotations: Mapping[str, str], path: str) -> Errors:
    """Check the annotations that a pod passes to a signer: keys with a domain, of limited size."""
    errors: Errors = []
    for key in sorted(annotations):
        lower = key.lower()
        problems = [fe.invalid(path, lower, text) for text in check_qualified_name(lower)]
        if not lower:
            problems = [fe.required(path, "")]
        elif not problems and "/" not in lower:
            problems = [fe.invalid(path, lower, 'must be a domain-prefixed key (such as "acme.io/foo")')]
        errors += problems
    if sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items()) > _MAX_ANNOTATIONS:
        errors.append(fe.too_long(path, _MAX_ANNOTATIONS))
    return errors
