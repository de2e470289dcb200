"""Controllers of bootstrap tokens (`bootstrap-signer-controller`, `token-cleaner-controller`).

The signer adds a signature per token to the config map `kube-public/cluster-info`, and removes those of
tokens that are no longer valid. The cleaner deletes expired tokens. Both watch the metadata of Secrets, which
all components share, and read the few that are tokens from the API server.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.api.core.v1 import ConfigMap, Secret
from kubewright.api.meta import Preconditions
from kubewright.cache.stores.store import ObjectChange
from kubewright.controller import ControllerBuilder, Request, Result
from kubewright.workloads.bootstrap_token import (
    NAME_PREFIX,
    NAMESPACE,
    SECRET_TYPE,
    is_expired,
    signing_token,
    token_expiration,
)
from kubewright.workloads.component_manager import ComponentManager

CLUSTER_INFO = "cluster-info"
PUBLIC = "kube-public"
SIGNATURE_PREFIX = "jws-kubeconfig-"
SIGNED_KEY = "kubeconfig"


def add_bootstrap_signer_controller(manager: ComponentManager) -> None:
    """Add the controller that signs the config map for discovery."""
    target = Request(PUBLIC, CLUSTER_INFO)
    client = manager.client.uncached

    def on_secret(change: ObjectChange) -> Iterable[Request]:
        return (target,) if is_token(change) else ()

    def on_config_map(change: ObjectChange) -> Iterable[Request]:
        return (target,) if (change.key.namespace, change.key.name) == (PUBLIC, CLUSTER_INFO) else ()

    async def reconcile(request: Request) -> Result | None:
        found = await client.get_or_none(ConfigMap, request.name, namespace=request.namespace)
        if found is None or SIGNED_KEY not in (found.data or {}):
            return None
        data = {key: text for key, text in (found.data or {}).items() if not key.startswith(SIGNATURE_PREFIX)}
        now, expirations = manager.now(), []
        for secret in await client.list(Secret, namespace=NAMESPACE, fields={"type": SECRET_TYPE}):
            token = signing_token(secret, now)
            if token is not None:
                data[f"{SIGNATURE_PREFIX}{token.id}"] = token.signature(data[SIGNED_KEY])
                if (expiration := token_expiration(secret)) is not None:
                    expirations.append((expiration - now).total_seconds())
        if data != found.data:
            found.data = data
            await client.update(found)
        return Result(requeue_after=max(1.0, min(expirations))) if expirations else None

    (
        ControllerBuilder[Request](manager, "bootstrap-signer-controller")
        .watches(Secret, handler=on_secret)
        .watches(ConfigMap, handler=on_config_map)
        .complete(reconcile)
    )


def add_token_cleaner_controller(manager: ComponentManager) -> None:
    """Add the controller that deletes expired tokens."""

    client = manager.client.uncached

    def on_secret(change: ObjectChange) -> Iterable[Request]:
        return (Request(change.key.namespace, change.key.name),) if is_token(change) else ()

    async def reconcile(request: Request) -> Result | None:
        secret = await client.get_or_none(Secret, request.name, namespace=request.namespace)
        if secret is None or secret.type != SECRET_TYPE:
            return None
        now = manager.now()
        if is_expired(secret, now):
            unchanged = Preconditions(uid=secret.metadata.uid)
            await client.delete(secret, preconditions=unchanged, missing_ok=True)
            return None
        expiration = token_expiration(secret)
        return Result(requeue_after=(expiration - now).total_seconds() + 1) if expiration else None

    (
        ControllerBuilder[Request](manager, "token-cleaner-controller")
        .watches(Secret, handler=on_secret)
        .complete(reconcile)
    )


def is_token(change: ObjectChange) -> bool:
    """Whether a changed Secret has the name of a bootstrap token."""
    return change.key.namespace == NAMESPACE and change.key.name.startswith(NAME_PREFIX)
