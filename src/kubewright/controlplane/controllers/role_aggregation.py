"""Cluster role aggregation: the rules of a role are those of all roles that its selectors choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubewright.api.errors import NotFound
from kubewright.api.label_selectors import SelectorError, selector_of
from kubewright.api.meta import LabelSelector

from .changes import Changes, ObjectChange
from .loop import Loop
from .requests import APPLY_PATCH, Requests, controller_user, resource_path

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
MANAGER = "clusterrole-aggregation-controller"

_decode = msgspec.json.Decoder().decode


class RoleAggregation:
    """Writes the rules of aggregated cluster roles."""

    def __init__(self, server: APIServer, changes: Changes) -> None:
        self.server = server
        self.requests = Requests(server, controller_user(MANAGER))
        self.loop: Loop[str] = Loop("cluster role aggregation", self._reconcile)
        self.loops = (self.loop,)
        self._aggregated: dict[str, list[Any]] = {}
        changes.follow(RBAC, "clusterroles", self._changed)

    def _changed(self, change: ObjectChange) -> None:
        role = change.object
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
                self.loop.add(change.name)
        labels = [role["metadata"].get("labels") or {}]
        if change.old is not None and change.new is not None:
            labels.append(_decode(change.old)["metadata"].get("labels") or {})
        for name, chosen in self._aggregated.items():
            if name != change.name and any(
                selector.matches(each) for selector in chosen for each in labels if each
            ):
                self.loop.add(name)

    async def _reconcile(self, name: str) -> None:
        store = self.server.store(RBAC, "clusterroles")
        selectors = self._aggregated.get(name)
        if store is None or selectors is None:
            return
        items = (await store.storage.list(store.prefix)).items
        roles = {role["metadata"]["name"]: role for role in (_decode(item.value) for item in items)}
        shared = roles.get(name)
        if shared is None:
            return
        rules: list[Object] = []
        for selector in selectors:
            for other in sorted(roles):
                if other != name and selector.matches(roles[other]["metadata"].get("labels")):
                    rules += [rule for rule in roles[other].get("rules") or () if rule not in rules]
        if (shared.get("rules") or []) == rules:
            return
        path = resource_path(store.resource, name=name)
        body = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        }
        try:
            await self.requests.send(
                "PATCH", path, body, media=APPLY_PATCH, query={"fieldManager": MANAGER, "force": "true"}
            )
        except NotFound:
            return
