"""Tokens of `kubernetes.io/service-account-token` secrets: whether they are valid, and their last use.

The secret gets the label `kubernetes.io/legacy-token-last-used` with the date (UTC) of the last request with
its token, written at most once per day. The controller `legacy-serviceaccount-token-cleaner-controller` marks
generated tokens that are not used for a year as invalid, by another label; these tokens are rejected, and
their use is recorded, too.
"""

from __future__ import annotations

import base64
import hmac
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupResource
from kubewright.client.patches import merge_patch
from kubewright.controlplane.in_process_clients import server_client
from kubewright.storage.contract import StorageError

if TYPE_CHECKING:
    from kubewright.apiserver.authentication.serviceaccount import Claims
    from kubewright.apiserver.http.messages import HTTPRequest
    from kubewright.apiserver.resources.objects import Object
    from kubewright.apiserver.server import APIServer

logger = logging.getLogger("kubewright.controlplane")

LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
_SECRETS: Final = GroupResource("", "secrets")
_ANNOTATION: Final = "authentication.k8s.io/legacy-token"
_GENERATED_WARNING: Final = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated "
    "secret-based tokens."
)
_METRICS: Final = {
    "legacy_tokens": "Requests with the token of a Secret",
    "legacy_manual_token_uses": "Requests with the token of a Secret that a user has created",
    "legacy_auto_token_uses": "Requests with the token of a generated Secret",
    "invalid_legacy_auto_token_uses": "Requests with a generated token that is marked as invalid",
}


async def read_stored(server: APIServer, plural: str, namespace: str, name: str) -> Object | None:
    """Return a stored object of the core group."""
    store = server.store("", plural)
    item = await store.storage.get(store.key(namespace, name)) if store is not None else None
    if store is None or item is None:
        return None
    return store.codec.unpack(item.value, item.mod_revision)


class LegacyTokens(Collector):
    """Checks and tracks the tokens of secrets; a collector of metrics."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._client = server_client(server)
        self._uses: Counter[str] = Counter()

    async def problem(self, claims: Claims, request: HTTPRequest | None, clock: Callable[[], float]) -> str:
        """Return why a token is invalid, or an empty string; record its use.

        A valid token adds warnings and audit annotations to `request`.
        """
        self._uses["legacy_tokens"] += 1
        private = claims["kubernetes.io"]
        namespace, reference = private["namespace"], private["serviceaccount"]
        secret_name, name = private["secret"]["name"], reference["name"]
        secret = await read_stored(self._server, "secrets", namespace, secret_name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            return "Token has been invalidated"
        stored = base64.b64decode((secret.get("data") or {}).get("token") or "")
        if not hmac.compare_digest(stored, private["secret"]["token"].encode()):
            return "Token does not match server's copy"
        account = await read_stored(self._server, "serviceaccounts", namespace, name)
        if account is None:
            return f'serviceaccounts "{name}" not found'
        if account["metadata"].get("deletionTimestamp"):
            return f"ServiceAccount {namespace}/{name} has been deleted"
        uid, claimed = account["metadata"].get("uid"), reference["uid"]
        if uid != claimed:
            return f"ServiceAccount UID ({uid}) does not match claim ({claimed})"
        await self._record_use(secret, datetime.fromtimestamp(clock(), UTC))
        if (secret["metadata"].get("labels") or {}).get(INVALID_SINCE):
            self._uses["invalid_legacy_auto_token_uses"] += 1
            return (
                f"the token in secret {namespace}/{secret_name} for service account {namespace}/{name} has "
                "been marked invalid. Use tokens from the TokenRequest API or manually created secret-based "
                f"tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of "
                "this token"
            )
        is_generated = any(each.get("name") == secret_name for each in account.get("secrets") or ())
        self._uses["legacy_auto_token_uses" if is_generated else "legacy_manual_token_uses"] += 1
        if request is not None:
            kind = "autogenerated" if is_generated else "manual"
            request.annotate(_ANNOTATION, str(claims["sub"]))
            request.annotate(f"{_ANNOTATION}-{kind}-secret", secret_name)
            if is_generated:
                request.warnings.add(_GENERATED_WARNING)
        return ""

    async def _record_use(self, secret: Object, now: datetime) -> None:
        """Label the secret with the date, unless another server with a faster clock has written the next."""
        metadata = secret["metadata"]
        today, tomorrow = f"{now:%Y-%m-%d}", f"{now + timedelta(days=1):%Y-%m-%d}"
        if (metadata.get("labels") or {}).get(LAST_USED) in (today, tomorrow):
            return
        change = {"metadata": {"uid": metadata["uid"], "labels": {LAST_USED: today}}}
        try:
            await self._client.patch(
                _SECRETS, metadata["name"], merge_patch(change), namespace=metadata["namespace"]
            )
        except (APIError, StorageError) as error:
            logger.error(
                "cannot record the use of a service account token",
                extra={"secret": f"{metadata['namespace']}/{metadata['name']}", "error": str(error)},
            )

    def collect(self) -> Iterable[Metric]:
        """Return the current values."""
        for name, text in _METRICS.items():
            metric = CounterMetricFamily(f"serviceaccount_{name}", text)
            metric.add_metric((), self._uses[name])
            yield metric
