"""The `AuthorizationConfiguration` file: the authorizers in order, with webhooks.

apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
  - type: Webhook
    name: opa
    webhook:
      authorizedTTL: 5m
      unauthorizedTTL: 30s
      timeout: 3s
      subjectAccessReviewVersion: v1
      matchConditionSubjectAccessReviewVersion: v1
      failurePolicy: Deny
      connectionInfo: {type: KubeConfigFile, kubeConfigFile: /etc/opa.kubeconfig}
      matchConditions:
        - expression: "!('system:masters' in request.groups)"
  - {type: Node, name: node}
  - {type: RBAC, name: rbac}
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from kubewright import cel
from kubewright.apiserver.kubeconfig_webhook import KubeconfigWebhook
from kubewright.controlplane.configuration.config_file import (
    ConfigFileError,
    ConfigStruct,
    naming_file,
    positive_seconds,
    read_config_file,
)

from .settings import AuthorizationSettings, parse_modes
from .webhook_authorizer import WebhookAuthorizer, review_environment

_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_TYPES: Final = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")
_MAX_TIMEOUT: Final = 30.0


class _Connection(ConfigStruct, frozen=True):
    type: str = ""
    kube_config_file: str = ""


class _Condition(ConfigStruct, frozen=True):
    expression: str = ""


class _Webhook(ConfigStruct, frozen=True):
    authorized_ttl: str = msgspec.field(default="5m", name="authorizedTTL")
    unauthorized_ttl: str = msgspec.field(default="30s", name="unauthorizedTTL")
    cache_authorized_requests: bool = True
    cache_unauthorized_requests: bool = True
    timeout: str = ""
    subject_access_review_version: str = ""
    match_condition_subject_access_review_version: str = ""
    failure_policy: str = ""
    connection_info: _Connection = _Connection()
    match_conditions: list[_Condition] = []


class _Authorizer(ConfigStruct, frozen=True):
    type: str = ""
    name: str = ""
    webhook: _Webhook | None = None


class _File(ConfigStruct, frozen=True):
    authorizers: list[_Authorizer] = []


def load_authorization_config(path: str | Path) -> AuthorizationSettings:
    """Read a configuration file; raises `ConfigFileError`."""
    file = read_config_file(path, "AuthorizationConfiguration", _File, _VERSIONS)
    with naming_file(path):
        if not file.authorizers:
            raise ConfigFileError("authorizers: at least one is required")
        names: set[str] = set()
        found: list[str | WebhookAuthorizer] = []
        connections: list[KubeconfigWebhook] = []
        for index, each in enumerate(file.authorizers):
            at = f"authorizers[{index}]"
            if each.type not in _TYPES:
                raise ConfigFileError(f"{at}.type: {each.type!r} is not one of {', '.join(_TYPES)}")
            if not each.name or each.name in names:
                raise ConfigFileError(f"{at}.name: {each.name!r} is empty or the name of another authorizer")
            names.add(each.name)
            if each.type == "Webhook":
                found.append(_webhook(each, at, connections))
                continue
            if each.webhook is not None:
                raise ConfigFileError(f"{at}.webhook: only authorizers of type Webhook have it")
            mode = parse_modes(each.type)[0]
            if mode in found:
                raise ConfigFileError(f"{at}.type: {each.type} is listed twice")
            found.append(mode)
        return AuthorizationSettings(found, connections)


def _webhook(declared: _Authorizer, at: str, connections: list[KubeconfigWebhook]) -> WebhookAuthorizer:
    webhook, here = declared.webhook, f"{at}.webhook"
    if webhook is None:
        raise ConfigFileError(f"{here}: it is required for the type Webhook")
    timeout = positive_seconds(webhook.timeout, f"{here}.timeout")
    if timeout > _MAX_TIMEOUT:
        raise ConfigFileError(f"{here}.timeout: at most {_MAX_TIMEOUT:g}s is possible")
    if webhook.subject_access_review_version != "v1":
        raise ConfigFileError(f"{here}.subjectAccessReviewVersion: only v1 is supported")
    if webhook.match_conditions and webhook.match_condition_subject_access_review_version != "v1":
        raise ConfigFileError(f"{here}.matchConditionSubjectAccessReviewVersion: v1 is required")
    if webhook.failure_policy not in ("NoOpinion", "Deny"):
        raise ConfigFileError(f"{here}.failurePolicy: it must be NoOpinion or Deny")
    if webhook.connection_info.type != "KubeConfigFile":
        raise ConfigFileError(f"{here}.connectionInfo.type: only KubeConfigFile is supported")
    try:
        connection = KubeconfigWebhook(webhook.connection_info.kube_config_file, timeout=timeout)
    except ValueError as error:
        raise ConfigFileError(f"{here}.connectionInfo.kubeConfigFile: {error}") from None
    connections.append(connection)
    allowed = positive_seconds(webhook.authorized_ttl, f"{here}.authorizedTTL")
    denied = positive_seconds(webhook.unauthorized_ttl, f"{here}.unauthorizedTTL")
    return WebhookAuthorizer(
        declared.name,
        connection.review,
        conditions=[
            _condition(each.expression, f"{here}.matchConditions[{index}]")
            for index, each in enumerate(webhook.match_conditions)
        ],
        deny_on_failure=webhook.failure_policy == "Deny",
        allow_seconds=allowed if webhook.cache_authorized_requests else 0.0,
        deny_seconds=denied if webhook.cache_unauthorized_requests else 0.0,
    )


def _condition(expression: str, at: str) -> cel.Program:
    if not expression:
        raise ConfigFileError(f"{at}.expression: an expression is required")
    try:
        return review_environment().check(expression, expected=cel.BOOL).compile()
    except (cel.CelCompileError, cel.CelResultError, cel.CelError) as error:
        raise ConfigFileError(f"{at}.expression: {expression}: {error}") from None
