"""Comparison of declared RBAC rules with the requests that an operator sends in a test.

    recorder = PermissionRecorder(operator)
    client = recorder.wrap(client)
    ...                              # run the operator with this client
    recorder.check()                 # fails with a list of missing and of unused permissions

A test with an administrator's client passes even if rules are missing, and the operator then fails in the
cluster. The recorder checks every request against the rules as the RBAC authorizer does. It ignores requests
with which development installs CRDs and webhooks, because an operator in a cluster does not send them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from kubewright.api.declaring.declarations import Declaration, DeclarationProvider, Rbac
from kubewright.client import Client
from kubewright.client.rest.request import APIRequest, CallNext
from kubewright.client.transport.interface import APIResponse, ResponseStream
from kubewright.manager.operators.installation import installing

ClientT = TypeVar("ClientT", bound=Client)


@dataclass(frozen=True, order=True)
class RequiredPermission:
    """Permission that a request requires: a verb on a resource, or on a path."""

    group: str
    resource: str
    """Resource with its subresource, as in RBAC rules, or a path that starts with a slash."""
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {what}{f' {self.name}' if self.name else ''}{where}"


class PermissionRecorder:
    """Records the requests of clients and compares them with declared rules.

    `declared` are rules, or objects with a method `declarations()`, such as an operator.
    """

    def __init__(self, *declared: DeclarationProvider | Declaration | Iterable[Declaration]) -> None:
        self.rules = list(dict.fromkeys(_rules(declared)))
        self.uses: dict[RequiredPermission, int] = {}
        """Number of requests by required permission."""

    def wrap(self, client: ClientT) -> ClientT:
        """Return a client that records its requests.

        Discovery requests and the installation of CRDs and webhooks in development are not recorded.
        """
        return client.with_interceptor(self._record)

    async def _record(self, call: APIRequest, proceed: CallNext) -> APIResponse | ResponseStream:
        if call.resource is not None and not installing.get():
            resource = call.resource.resource
            if call.subresource:
                resource = f"{resource}/{call.subresource}"
            name = "" if call.verb in ("create", "list", "watch", "deletecollection") else call.name
            use = RequiredPermission(call.resource.group, resource, call.verb, call.namespace, name)
            self.uses[use] = self.uses.get(use, 0) + 1
        return await proceed(call)

    def missing(self) -> list[RequiredPermission]:
        """Return permissions that were required and that no rule grants."""
        return sorted(use for use in self.uses if not any(_allows(rule, use) for rule in self.rules))

    def unused(self) -> list[RequiredPermission]:
        """Return permissions that are declared and were never used, one for each verb and resource.

        Rules that follow from the decorators and settings of an operator are not included: they cover
        requests that not every test causes, such as deleting owned objects, and cannot be removed.
        """
        return sorted(
            grant
            for rule in self.rules
            if rule.where
            for grant in _grants(rule)
            if not any(_allows(rule, use) and _covers(grant, use) for use in self.uses)
        )

    def check(self, *, unused: bool = True) -> None:
        """Raise `AssertionError` for missing permissions and for declared ones that were never used.

        With `unused=False`, only for missing ones: for tests that run a part of the operator.
        """
        differences = [f"missing: {use}" for use in self.missing()]
        if unused:
            differences += [f"unused: {use}" for use in self.unused()]
        if differences:
            raise AssertionError(
                "the declared permissions differ from the required ones:\n  " + "\n  ".join(differences)
            )


def _rules(declared: Iterable[object]) -> Iterator[Rbac]:
    for each in declared:
        if isinstance(each, Rbac):
            yield each
        elif isinstance(each, DeclarationProvider):
            yield from _rules(each.declarations())
        elif isinstance(each, Iterable):
            yield from _rules(each)


def _allows(rule: Rbac, use: RequiredPermission) -> bool:
    groups = {"" if group == "core" else group for group in rule.groups}
    return (
        (use.verb in rule.verbs or "*" in rule.verbs)
        and (use.group in groups or "*" in groups)
        and any(_matches(resource, use.resource) for resource in rule.resources)
        and (not rule.namespace or rule.namespace == use.namespace)
        and (not rule.resource_names or use.name in rule.resource_names)
    )


def _matches(pattern: str, resource: str) -> bool:
    if pattern in ("*", resource):
        return True
    return pattern.startswith("*/") and resource.partition("/")[2] == pattern[2:]


def _grants(rule: Rbac) -> Iterator[RequiredPermission]:
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                name = rule.resource_names[0] if len(rule.resource_names) == 1 else ""
                yield RequiredPermission(
                    "" if group == "core" else group, resource, verb, rule.namespace, name
                )


def _covers(grant: RequiredPermission, use: RequiredPermission) -> bool:
    return (
        grant.verb in ("*", use.verb)
        and grant.group in ("*", use.group)
        and _matches(grant.resource, use.resource)
        and grant.name in ("", use.name)
    )
