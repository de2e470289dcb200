"""What every namespace gets: a service account `default`, and the certificate authority of the API server.

Also fills the secrets of type `kubernetes.io/service-account-token` with a token, and removes those whose
service account is gone.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import AlreadyExists, Forbidden, NotFound

from .changes import Changes, ObjectChange
from .loop import Loop
from .requests import Requests, controller_user, resource_path

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

Object = dict[str, Any]

DEFAULT = "default"
ROOT_CA = "kube-root-ca.crt"
TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - the name of a type
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"


class _PerNamespace(ABC):
    """Keeps one object in every namespace that stays."""

    plural = ""

    def __init__(self, server: APIServer, changes: Changes, name: str) -> None:
        self.server = server
        self.name = name
        self.loop: Loop[str] = Loop(f"{self.plural} {name}", self._reconcile)
        self.loops = (self.loop,)
        changes.follow("", "namespaces", self._namespace_changed)
        changes.follow("", self.plural, self._object_changed)

    def _namespace_changed(self, change: ObjectChange) -> None:
        if change.type == "ADDED" and change.metadata.deletion_timestamp is None:
            self.loop.add(change.name)

    def _object_changed(self, change: ObjectChange) -> None:
        if change.name == self.name and change.type != "ADDED":
            self.loop.add(change.namespace)

    async def _namespace_stays(self, name: str) -> bool:
        store = self.server.store("", "namespaces")
        item = await store.storage.get(store.key("", name)) if store is not None else None
        if store is None or item is None:
            return False
        found = store.layout.unpack(item.value, item.mod_revision)
        return (found.get("status") or {}).get("phase") != "Terminating" and not found["metadata"].get(
            "deletionTimestamp"
        )

    async def _live(self, namespace: str) -> Object | None:
        store = self.server.store("", self.plural)
        item = await store.storage.get(store.key(namespace, self.name)) if store is not None else None
        return store.layout.unpack(item.value, item.mod_revision) if store is not None and item else None

    @abstractmethod
    async def _reconcile(self, namespace: str) -> None:
        """Bring what this controller keeps in a namespace into its desired state."""


class ServiceAccountController(_PerNamespace):
    """Every namespace has a service account `default`."""

    plural = "serviceaccounts"

    def __init__(self, server: APIServer, changes: Changes) -> None:
        self.requests = Requests(server, controller_user("service-account-controller"))
        super().__init__(server, changes, DEFAULT)

    async def _reconcile(self, namespace: str) -> None:
        if await self._live(namespace) is not None or not await self._namespace_stays(namespace):
            return
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT}}
        try:
            await self.requests.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", body)
        except (AlreadyExists, NotFound, Forbidden):
            return


class RootCAPublisher(_PerNamespace):
    """Every namespace has a config map with the certificate authority of the API server."""

    plural = "configmaps"

    def __init__(self, server: APIServer, changes: Changes, ca: Callable[[], bytes]) -> None:
        self.requests = Requests(server, controller_user("root-ca-cert-publisher"))
        self._ca = ca
        super().__init__(server, changes, ROOT_CA)

    async def _reconcile(self, namespace: str) -> None:
        data = {"ca.crt": self._ca().decode()}
        live = await self._live(namespace)
        if live is None:
            if not await self._namespace_stays(namespace):
                return
            note = {
                "kubernetes.io/description": "The certificate authority of the API server, for its clients."
            }
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "annotations": note},
                "data": data,
            }
            try:
                await self.requests.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
            except (AlreadyExists, NotFound, Forbidden):
                return
        elif live.get("data") != data:
            try:
                await self.requests.update(
                    f"/api/v1/namespaces/{namespace}/configmaps/{ROOT_CA}", {**live, "data": data}
                )
            except NotFound:
                return


class TokenController:
    """Fills token secrets; `sign(namespace, name, uid, secret)` makes the token."""

    def __init__(
        self,
        server: APIServer,
        changes: Changes,
        *,
        sign: Callable[[str, str, str, str], str],
        ca: Callable[[], bytes],
    ) -> None:
        self.server = server
        self.requests = Requests(server, controller_user("token-controller"))
        self.loop: Loop[tuple[str, str]] = Loop("token controller", self._reconcile)
        self.loops = (self.loop,)
        self._sign = sign
        self._ca = ca
        self._secrets: dict[tuple[str, str], set[str]] = {}
        """The names of token secrets, by namespace and name of their account."""
        changes.follow("", "secrets", self._secret_changed)
        changes.follow("", "serviceaccounts", self._account_changed)

    def _secret_changed(self, change: ObjectChange) -> None:
        value = change.new if change.new is not None else change.old
        if value is None or TOKEN_TYPE.encode() not in value:
            return
        obj = change.object
        account = (obj["metadata"].get("annotations") or {}).get(NAME)
        if obj.get("type") != TOKEN_TYPE or not account:
            return
        names = self._secrets.setdefault((change.namespace, account), set())
        if change.type == "DELETED":
            names.discard(change.name)
        else:
            names.add(change.name)
            self.loop.add(change.key)

    def _account_changed(self, change: ObjectChange) -> None:
        for name in self._secrets.get(change.key, ()):
            self.loop.add((change.namespace, name))

    async def _reconcile(self, key: tuple[str, str]) -> None:
        namespace, name = key
        secrets, accounts = self.server.store("", "secrets"), self.server.store("", "serviceaccounts")
        if secrets is None or accounts is None:
            return
        path = resource_path(secrets.resource, namespace, name)
        try:
            secret = await self.requests.get(path)
        except NotFound:
            return
        metadata = secret["metadata"]
        annotations = metadata.get("annotations") or {}
        if secret.get("type") != TOKEN_TYPE or not annotations.get(NAME):
            return
        try:
            account = await self.requests.get(resource_path(accounts.resource, namespace, annotations[NAME]))
        except NotFound:
            account = None
        uid = account["metadata"]["uid"] if account is not None else ""
        if account is None or annotations.get(UID) not in (None, "", uid):
            try:
                await self.requests.delete(path, uid=metadata["uid"])
            except NotFound:
                return
            return
        data = dict(secret.get("data") or {})
        wanted = {"ca.crt": self._ca(), "namespace": namespace.encode()}
        for field, value in wanted.items():
            data[field] = base64.b64encode(value).decode()
        if not data.get("token"):
            token = self._sign(namespace, annotations[NAME], uid, name)
            data["token"] = base64.b64encode(token.encode()).decode()
        if data != (secret.get("data") or {}) or annotations.get(UID) != uid:
            metadata["annotations"] = {**annotations, UID: uid}
            try:
                await self.requests.update(path, {**secret, "data": data})
            except NotFound:
                return
