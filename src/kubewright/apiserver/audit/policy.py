"""Audit policies: the first rule that matches a request decides its level and the stages to omit.

A rule matches by users, groups of users, verbs, and either resources (with names, subresources and
namespaces) or non-resource URLs; what a rule does not name matches everything. Requests that no rule matches
are not recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from kubewright.api.values.names import check_dns_subdomain
from kubewright.apiserver.authorization import AuthorizationAttributes
from kubewright.trusted_files import read_named_file

logger = logging.getLogger("kubewright.apiserver.audit")

STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_VERSION = "audit.k8s.io/v1"


class AuditLevel(IntEnum):
    """How much of a request is recorded; each level includes those before it."""

    NONE = 0
    METADATA = 1
    """User, time, resource and verb."""
    REQUEST = 2
    """Also the request body."""
    REQUEST_RESPONSE = 3
    """Also the response body."""


LEVELS = {
    "None": AuditLevel.NONE,
    "Metadata": AuditLevel.METADATA,
    "Request": AuditLevel.REQUEST,
    "RequestResponse": AuditLevel.REQUEST_RESPONSE,
}
LEVEL_NAMES = {level: name for name, level in LEVELS.items()}


class AuditConfig(NamedTuple):
    """What a policy decides for one request."""

    level: AuditLevel
    omit_stages: frozenset[str]
    omit_managed_fields: bool


class GroupResources(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Resources of one API group; `*` is every group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    """`pods`, `pods/log`, `pods/*`, `*/scale` or `*`; none means all, with subresources."""
    resource_names: tuple[str, ...] = ()

    def matches(self, attributes: AuthorizationAttributes) -> bool:
        """Whether a resource request is for one of these resources."""
        if self.group not in (attributes.group, "*"):
            return False
        if not self.resources:
            return True
        if self.resource_names and attributes.name not in self.resource_names:
            return False
        resource, subresource = attributes.resource, attributes.subresource
        wanted = {f"{resource}/{subresource}" if subresource else resource, "*", f"{resource}/*"}
        if subresource:
            wanted.add(f"*/{subresource}")
        return not wanted.isdisjoint(self.resources)


class AuditRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One rule of a policy."""

    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    """An empty name matches resources without a namespace."""
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None

    def matches(self, attributes: AuthorizationAttributes, *, authenticated: bool = True) -> bool:
        """Whether the rule applies to a request."""
        user = attributes.user
        if self.users and not (authenticated and user.name in self.users):
            return False
        if self.user_groups and not (authenticated and not set(user.groups).isdisjoint(self.user_groups)):
            return False
        if self.verbs and attributes.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if not attributes.resource or (self.namespaces and attributes.namespace not in self.namespaces):
                return False
            return not self.resources or any(each.matches(attributes) for each in self.resources)
        if self.non_resource_urls:
            return not attributes.resource and any(
                _path_matches(attributes.path, pattern) for pattern in self.non_resource_urls
            )
        return True

    def problems(self, path: str) -> Iterable[str]:
        """Return the validation errors of the rule, which is at `path`."""
        if not self.level:
            yield f"{path}.level: Required value"
        elif self.level not in LEVELS:
            known = ", ".join(f'"{name}"' for name in LEVELS)
            yield f'{path}.level: Unsupported value: "{self.level}": supported values: {known}'
        for position, url in enumerate(self.non_resource_urls):
            at = f'{path}.nonResourceURLs[{position}]: Invalid value: "{url}": non-resource URL'
            if url != "*" and not url.startswith("/"):
                yield f"{at} rules must begin with a '/' character"
            if "*" in url[:-1]:
                yield f"{at} wildcards '*' must be the final character of the rule"
        for group in self.resources:
            if group.group not in ("", "*") and check_dns_subdomain(group.group):
                yield f'{path}.resources.group: Invalid value: "{group.group}": must be a DNS subdomain'
            if group.resource_names and not group.resources:
                yield f"{path}.resources.resourceNames: using resourceNames requires at least one resource"
        yield from _stage_problems(self.omit_stages, f"{path}.omitStages")
        if self.non_resource_urls and (self.resources or self.namespaces):
            both = "rules cannot apply to both regular resources and non-resource URLs"
            yield f"{path}.nonResourceURLs: {both}"


class _Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    rules: tuple[AuditRule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False


class AuditPolicy:
    """The rules of a policy file (`audit.k8s.io/v1` Policy)."""

    def __init__(
        self,
        rules: Iterable[AuditRule],
        *,
        omit_stages: Iterable[str] = (),
        omit_managed_fields: bool = False,
    ) -> None:
        """Raises `ValueError` for rules that are not valid."""
        rules, omitted = tuple(rules), tuple(omit_stages)
        problems = list(_stage_problems(omitted, "omitStages"))
        for position, rule in enumerate(rules):
            problems += rule.problems(f"rules[{position}]")
        if not rules:
            problems.append("rules: a policy needs at least one rule")
        if problems:
            raise ValueError("; ".join(problems))
        self._rules = [
            (
                rule,
                AuditConfig(
                    LEVELS[rule.level],
                    frozenset((*omitted, *rule.omit_stages)),
                    omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields,
                ),
            )
            for rule in rules
        ]
        self._default = AuditConfig(AuditLevel.NONE, frozenset(omitted), omit_managed_fields)

    @classmethod
    def from_file(cls, path: str | Path) -> AuditPolicy:
        """Read a policy file; raises `OSError`, or `ValueError` with the path."""
        try:
            return cls.parse(yaml.safe_load(read_named_file(path)))
        except yaml.YAMLError as error:
            where = " ".join(str(error).split())
            raise ValueError(f"audit policy {path} is not valid YAML: {where}") from None
        except ValueError as error:
            raise ValueError(f"audit policy {path}: {error}") from None

    @classmethod
    def parse(cls, document: Any) -> AuditPolicy:
        """Return the policy of a decoded document; raises `ValueError`. Unknown fields are logged."""
        if not isinstance(document, dict):
            raise ValueError(f"expected an object of apiVersion {_VERSION} and kind Policy")
        if document.get("apiVersion") != _VERSION or document.get("kind") != "Policy":
            given = f"{document.get('apiVersion')}, {document.get('kind')}"
            raise ValueError(f"expected apiVersion {_VERSION} and kind Policy, not {given}")
        unknown = document.keys() - {"apiVersion", "kind", "metadata", *_Document.__struct_encode_fields__}
        for position, rule in enumerate(document.get("rules") or ()):
            if isinstance(rule, dict):
                extra = rule.keys() - set(AuditRule.__struct_encode_fields__)
                unknown |= {f"rules[{position}].{name}" for name in extra}
        if unknown:
            logger.warning("ignored unknown fields of the audit policy", extra={"fields": sorted(unknown)})
        try:
            read = msgspec.convert(_without_nulls(document), _Document)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        return cls(read.rules, omit_stages=read.omit_stages, omit_managed_fields=read.omit_managed_fields)

    def evaluate(self, attributes: AuthorizationAttributes, *, authenticated: bool = True) -> AuditConfig:
        """Return the configuration of the first rule that matches."""
        for rule, config in self._rules:
            if rule.matches(attributes, authenticated=authenticated):
                return config
        return self._default


def _without_nulls(value: Any) -> Any:
    """Return plain data without null fields, which mean the same as missing ones."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _path_matches(path: str, pattern: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _stage_problems(stages: Iterable[str], path: str) -> Iterable[str]:
    for position, stage in enumerate(stages):
        if stage not in STAGES:
            yield f'{path}[{position}]: Invalid value: "{stage}": allowed stages are {",".join(STAGES)}'
