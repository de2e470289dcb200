"""Cluster role aggregation: an aggregated role has the rules of all roles that its selectors match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from kubewright.api.errors import NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.meta import LabelSelector
from kubewright.api.selectors.label_selectors import Selector, SelectorError, selector_of
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.in_process_clients import controller_client

from . import Component, new_controller
from .source import resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = GroupResource(RBAC, "clusterroles")
FIELD_MANAGER = "clusterrole-aggregation-controller"


class RoleAggregationController(Component):
    """Writes the rules of aggregated cluster roles."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        self.client = controller_client(server, FIELD_MANAGER)
        self._informers = informers
        self._aggregated: dict[str, list[Selector]] = {}
        controller = new_controller(FIELD_MANAGER, self._reconcile)
        controller.watch(resource_source(informers, CLUSTER_ROLES, self._role_changed))
        self.controllers = (controller,)

    def _role_changed(self, change: ObjectChange) -> Iterable[str]:
        role = change.entry.object
        rule = role.get("aggregationRule")
        if change.type == "DELETED" or not rule:
            self._aggregated.pop(change.name, None)
        else:
            selectors = rule.get("clusterRoleSelectors") or ()
            try:
                self._aggregated[change.name] = [
                    selector_of(msgspec.convert(each, LabelSelector)) for each in selectors
                ]
            except (SelectorError, msgspec.ValidationError):
                self._aggregated.pop(change.name, None)
            else:
                yield change.name
        labels = [role["metadata"].get("labels") or {}]
        if (old := change.old_object) is not None:
            labels.append(old["metadata"].get("labels") or {})
        for name, selectors in self._aggregated.items():
            if name != change.name and any(
                selector.matches(each) for selector in selectors for each in labels if each
            ):
                yield name

    async def _reconcile(self, name: str) -> None:
        selectors = self._aggregated.get(name)
        if selectors is None:
            return
        roles = {role["metadata"]["name"]: role for role in await self._informers.list(RBAC, "clusterroles")}
        aggregated = roles.get(name)
        if aggregated is None:
            return
        rules = self._rules(name, roles, frozenset())
        if (aggregated.get("rules") or []) == rules:
            return
        body = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        }
        try:
            await self.client.apply(body, force=True, field_manager=FIELD_MANAGER)
        except NotFound:
            return

    def _rules(self, name: str, roles: dict[str, Object], parents: frozenset[str]) -> list[Object]:
        """Return the rules of an aggregated role; those of aggregated roles in it may not be written yet."""
        rules: list[Object] = []
        for selector in self._aggregated.get(name, ()):
            for other, role in roles.items():
                if other == name or other in parents or not selector.matches(role["metadata"].get("labels")):
                    continue
                nested = other in self._aggregated
                found = self._rules(other, roles, parents | {name}) if nested else role.get("rules") or ()
                rules += [rule for rule in found if rule not in rules]
        return rules
