"""Service account controllers: the `default` account and the CA config map of every namespace, and tokens.

`TokenController` fills secrets of type `kubernetes.io/service-account-token` with a token, and deletes those
whose service account does not exist.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kubewright.api.errors import AlreadyExists, Forbidden, NotFound
from kubewright.api.gvk import GroupResource
from kubewright.api.meta import Preconditions
from kubewright.apiserver.resources.objects import Object
from kubewright.cache.stores.store import ObjectKey
from kubewright.controlplane.in_process_clients import controller_client

from . import Component, new_controller
from .source import resource_source

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.cache.stores.store import ObjectChange
    from kubewright.controlplane.informers import Informers


NAMESPACES = GroupResource("", "namespaces")
SECRETS = GroupResource("", "secrets")
SERVICE_ACCOUNTS = GroupResource("", "serviceaccounts")
CONFIG_MAPS = GroupResource("", "configmaps")

DEFAULT = "default"
ROOT_CA = "kube-root-ca.crt"
TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - the name of a type
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"


class _PerNamespaceController(Component, ABC):
    """Ensures one object in every namespace that is not being deleted."""

    def __init__(
        self, server: APIServer, informers: Informers, user: str, resource: GroupResource, name: str
    ) -> None:
        self.client = controller_client(server, user)
        self.resource = resource
        self.name = name
        self._informers = informers
        controller = new_controller(user, self._reconcile)
        controller.watch(resource_source(informers, NAMESPACES, self._namespace_changed))
        controller.watch(resource_source(informers, resource, self._object_changed, needs="metadata"))
        self.controllers = (controller,)

    def _namespace_changed(self, change: ObjectChange) -> Iterable[str]:
        if (change.type == "ADDED" or change.initial) and change.entry.metadata.deletion_timestamp is None:
            yield change.name

    def _object_changed(self, change: ObjectChange) -> Iterable[str]:
        # A new object is the one that this controller has created, unless a list reports it.
        if change.name == self.name and (change.type != "ADDED" or change.initial):
            yield change.namespace

    async def _is_active(self, namespace: str) -> bool:
        found = await self._informers.get("", "namespaces", namespace)
        return (
            found is not None
            and (found.get("status") or {}).get("phase") != "Terminating"
            and not found["metadata"].get("deletionTimestamp")
        )

    async def _current(self, namespace: str) -> Object | None:
        resource = self.resource
        return await self._informers.read(resource.group, resource.resource, self.name, namespace=namespace)

    async def _create(self, namespace: str, obj: Object) -> None:
        try:
            await self.client.create(obj, namespace=namespace)
        except (AlreadyExists, NotFound):
            return
        except Forbidden as error:
            # Other reasons, such as a quota or a webhook, may be temporary.
            if not any(each.get("reason") == "NamespaceTerminating" for each in error.causes):
                raise

    @abstractmethod
    async def _reconcile(self, namespace: str) -> None:
        """Create or restore the object of a namespace."""


class ServiceAccountController(_PerNamespaceController):
    """Creates the service account `default` in every namespace."""

    def __init__(self, server: APIServer, informers: Informers) -> None:
        super().__init__(server, informers, "service-account-controller", SERVICE_ACCOUNTS, DEFAULT)

    async def _reconcile(self, namespace: str) -> None:
        if await self._current(namespace) is None and await self._is_active(namespace):
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT}}
            await self._create(namespace, body)


class RootCAPublisher(_PerNamespaceController):
    """Publishes the API server's certificate authority in a config map of every namespace."""

    def __init__(self, server: APIServer, informers: Informers, ca: Callable[[], bytes]) -> None:
        super().__init__(server, informers, "root-ca-cert-publisher", CONFIG_MAPS, ROOT_CA)
        self._ca = ca

    async def _reconcile(self, namespace: str) -> None:
        data = {"ca.crt": self._ca().decode()}
        current = await self._current(namespace)
        if current is None:
            if not await self._is_active(namespace):
                return
            annotations = {
                "kubernetes.io/description": "The certificate authority of the API server, for its clients."
            }
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "annotations": annotations},
                "data": data,
            }
            await self._create(namespace, body)
        elif current.get("data") != data:
            try:
                await self.client.update({"apiVersion": "v1", "kind": "ConfigMap", **current, "data": data})
            except NotFound:
                return


class TokenController(Component):
    """Fills token secrets; `sign(namespace, name, uid, secret)` returns the token."""

    def __init__(
        self,
        server: APIServer,
        informers: Informers,
        *,
        sign: Callable[[str, str, str, str], str],
        ca: Callable[[], bytes],
    ) -> None:
        self.client = controller_client(server, "token-controller")
        self._sign = sign
        self._ca = ca
        self._secrets: dict[ObjectKey, set[str]] = {}
        """Names of token secrets, by namespace and name of their account."""
        self._accounts: dict[ObjectKey, ObjectKey] = {}
        """The account of each token secret."""
        controller = new_controller("token-controller", self._reconcile)
        controller.watch(resource_source(informers, SECRETS, self._secret_changed, needs="events"))
        controller.watch(
            resource_source(informers, SERVICE_ACCOUNTS, self._account_changed, needs="metadata")
        )
        self.controllers = (controller,)

    def _secret_changed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        account = self._accounts.pop(change.key, None)
        if account is not None:
            names = self._secrets[account]
            names.discard(change.name)
            if not names:
                del self._secrets[account]
        if change.type == "DELETED" or TOKEN_TYPE.encode() not in change.entry.raw:
            return
        secret = change.entry.object
        name = (secret["metadata"].get("annotations") or {}).get(NAME)
        if secret.get("type") == TOKEN_TYPE and name:
            account = self._accounts[change.key] = ObjectKey(change.namespace, name)
            self._secrets.setdefault(account, set()).add(change.name)
            yield change.key

    def _account_changed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        for name in self._secrets.get(change.key, ()):
            yield ObjectKey(change.namespace, name)

    async def _reconcile(self, key: ObjectKey) -> None:
        namespace, name = key
        try:
            secret = (await self.client.get(SECRETS, name, namespace=namespace)).raw
        except NotFound:
            return
        metadata = secret["metadata"]
        annotations = metadata.get("annotations") or {}
        if secret.get("type") != TOKEN_TYPE or not annotations.get(NAME):
            return
        account = await self.client.get_or_none(SERVICE_ACCOUNTS, annotations[NAME], namespace=namespace)
        uid = account.uid if account is not None else ""
        if account is None or annotations.get(UID) not in (None, "", uid):
            await self.client.delete(
                SECRETS,
                name,
                namespace=namespace,
                preconditions=Preconditions(uid=metadata["uid"]),
                missing_ok=True,
            )
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
                await self.client.update({**secret, "data": data})
            except NotFound:
                return
