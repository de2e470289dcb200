"""Generate webhook configurations from declared admission webhooks.

One object has all mutating webhooks and another all validating ones, sorted by name. Group, version,
resource, name and path of a webhook default to those of its declared kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from kubewright.api.declaring.declarations import (
    Webhook,
    WebhookConfiguration,
    is_resource,
    resource_info,
    webhook_path,
)
from kubewright.api.encoding.codec import to_plain
from kubewright.schema.generation.errors import DeclarationError, Problem

Manifest = dict[str, Any]

_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")
_CHOICES: Final[dict[str, tuple[str | None, ...]]] = {
    "failure_policy": ("Fail", "Ignore"),
    "match_policy": ("Exact", "Equivalent", None),
    "side_effects": ("None", "NoneOnDryRun"),
    "reinvocation_policy": ("Never", "IfNeeded", None),
    "scope": ("Namespaced", "Cluster", "*", None),
}


def webhook_configurations(
    webhooks: Iterable[Webhook], configurations: Iterable[WebhookConfiguration] = ()
) -> list[Manifest]:
    """Return the configuration objects; raise `DeclarationError` with all problems."""
    problems: list[Problem] = []
    built = build_webhooks(webhooks, configurations, problems)
    if problems:
        raise DeclarationError(problems)
    return built


def build_webhooks(
    webhooks: Iterable[Webhook], configurations: Iterable[WebhookConfiguration], problems: list[Problem]
) -> list[Manifest]:
    """Return the configuration objects, mutating first; errors are added to `problems`."""
    complete = [_complete(webhook) for webhook in webhooks]
    configurations = list(configurations)
    manifests: list[Manifest] = []
    for mutating in (True, False):
        type_ = "Mutating" if mutating else "Validating"
        named = [one for one in configurations if one.mutating is mutating]
        for extra in named[1:]:
            problems.append(
                Problem(extra.where, extra.name, f"a second {type_}WebhookConfiguration; keep one")
            )
        mine = sorted((one for one in complete if one.mutating is mutating), key=lambda one: one.name)
        for one in mine:
            problems.extend(Problem(one.where, f"Webhook {one.name}", text) for text in _webhook_errors(one))
        for one, following in pairwise(mine):
            if one.name == following.name:
                text = f"the name is already used at {one.where}; write another name="
                problems.append(Problem(following.where, f"Webhook {following.name}", text))
        if not mine:
            continue
        metadata: Manifest = {"name": named[0].name if named else f"{type_.lower()}-webhook-configuration"}
        for field in ("labels", "annotations"):
            if named and getattr(named[0], field):
                metadata[field] = dict(getattr(named[0], field))
        manifests.append(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{type_}WebhookConfiguration",
                "metadata": metadata,
                "webhooks": [_webhook(one) for one in mine],
            }
        )
    return manifests


def _complete(webhook: Webhook) -> Webhook:
    """Add defaults from the declared kind."""
    if webhook.of is None or not is_resource(webhook.of):
        return webhook
    info = resource_info(webhook.of)
    letter = "m" if webhook.mutating else "v"
    return replace(
        webhook,
        groups=webhook.groups or (info.gvk.group,),
        versions=webhook.versions or (info.gvk.version,),
        resources=webhook.resources or (info.plural,),
        name=webhook.name or f"{letter}{info.gvk.kind.lower()}-{info.gvk.version}.{info.gvk.group}",
        path=webhook.path or ("" if webhook.url else webhook_path(info.gvk, mutating=webhook.mutating)),
    )


def _webhook_errors(webhook: Webhook) -> Iterable[str]:
    if webhook.of is not None and not is_resource(webhook.of):
        yield f"{webhook.of.__name__} is not declared with @resource; write groups=, versions= and resources="
    for field in ("groups", "versions", "resources", "verbs", "admission_review_versions"):
        value = getattr(webhook, field)
        if isinstance(value, str):
            yield f'{field} is a string; write a tuple, {field}=("{value}",)'
        elif not value:
            yield f"{field} is empty; write at least one"
    if webhook.name.count(".") < 2 or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", webhook.name):
        yield f"name {webhook.name!r} must be a domain of three parts or more, as in mguestbook.example.com"
    if bool(webhook.path) == bool(webhook.url):
        yield "requires either path= or url="
    elif webhook.path and not webhook.path.startswith("/"):
        yield f"path {webhook.path!r} must start with a slash"
    elif webhook.url and not webhook.url.startswith("https://"):
        yield f"url {webhook.url!r} must start with https://"
    for operation in webhook.verbs:
        if operation.upper() not in _OPERATIONS:
            yield f"verb {operation!r} must be one of create, update, delete, connect, *"
    for field, allowed in _CHOICES.items():
        if getattr(webhook, field) not in allowed:
            choices = ", ".join(repr(choice) for choice in allowed if choice)
            yield f"{field} {getattr(webhook, field)!r} must be one of {choices}"
    if webhook.timeout_seconds is not None and not 1 <= webhook.timeout_seconds <= 30:
        yield f"timeout_seconds {webhook.timeout_seconds} must be between 1 and 30"
    if webhook.reinvocation_policy and not webhook.mutating:
        yield "reinvocation_policy is for mutating webhooks only; remove it"
    names = [condition.name for condition in webhook.match_conditions]
    if len(set(names)) != len(names):
        yield "two match conditions have the same name"


def _webhook(webhook: Webhook) -> Manifest:
    rule: Manifest = {
        "apiGroups": ["" if group == "core" else group for group in webhook.groups],
        "apiVersions": list(webhook.versions),
        "operations": [operation.upper() for operation in webhook.verbs],
        "resources": list(webhook.resources),
    }
    if webhook.scope is not None:
        rule["scope"] = webhook.scope
    client: Manifest
    if webhook.url:
        client = {"url": webhook.url}
    else:
        client = {
            "service": {
                "name": webhook.service_name,
                "namespace": webhook.service_namespace,
                "path": webhook.path,
            }
        }
        if webhook.service_port is not None:
            client["service"]["port"] = webhook.service_port
    if webhook.ca_bundle is not None:
        client["caBundle"] = webhook.ca_bundle
    manifest: Manifest = {
        "admissionReviewVersions": list(webhook.admission_review_versions),
        "clientConfig": client,
        "failurePolicy": webhook.failure_policy,
        "name": webhook.name,
        "rules": [rule],
        "sideEffects": webhook.side_effects,
    }
    for field, value in (
        ("matchPolicy", webhook.match_policy),
        ("timeoutSeconds", webhook.timeout_seconds),
        ("reinvocationPolicy", webhook.reinvocation_policy),
    ):
        if value is not None:
            manifest[field] = value
    if webhook.namespace_selector is not None:
        manifest["namespaceSelector"] = to_plain(webhook.namespace_selector)
    if webhook.object_selector is not None:
        manifest["objectSelector"] = to_plain(webhook.object_selector)
    if webhook.match_conditions:
        manifest["matchConditions"] = [
            {"expression": condition.expression, "name": condition.name}
            for condition in webhook.match_conditions
        ]
    return manifest
