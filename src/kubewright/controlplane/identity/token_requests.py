"""`serviceaccounts/<name>/token`: issue tokens on request, and check that they are still valid.

A token may be bound to a pod, a secret or a node; it is invalid when that object is deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from kubewright.api.errors import APIError, BadRequest, NotFound, conflict, invalid
from kubewright.api.field_errors import FieldError
from kubewright.api.gvk import GroupKind, GroupResource, GroupVersionKind
from kubewright.api.kubernetes_version import serving_version
from kubewright.api.values.times import format_time, parse_time
from kubewright.apiserver.authentication.serviceaccount import Claims, Lookup
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.resources.objects import Object
from kubewright.apiserver.resources.subresource import Subresource, SubresourceRequest
from kubewright.apiserver.server import APIServer

from .issuer import TokenIssuer
from .legacy_tokens import LegacyTokens, read_stored

GROUP = "authentication.k8s.io"
_LEAST, _MOST = 600, 1 << 32
_PROJECTED = 3607
"""Requested lifetime of projected tokens; they are extended to a year, with warnings after an hour."""
_YEAR = 365 * 24 * 3600
_WEBHOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_LEEWAY = 60.0
_ISSUED = "authentication.kubernetes.io/issued-credential-id"
"""Audit annotation: the ID of the token."""


def default_token_request(request: Object) -> None:
    """Set the fields that decoding defaults, which admission plug-ins see."""
    spec = request["spec"] = dict(request.get("spec") or {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = 3600


class TokenRequests:
    """Serves token requests."""

    def __init__(
        self,
        server: APIServer,
        issuer: Callable[[], TokenIssuer],
        *,
        max_expiration: int = 0,
        extend_expiration: bool = True,
    ) -> None:
        """`max_expiration`: seconds after which all tokens expire (0: no limit); `extend_expiration`: whether
        projected tokens of pods live for a year, with warnings after an hour."""
        self._server = server
        self._find_issuer = issuer
        self._max_expiration = max_expiration
        self._extend_expiration = extend_expiration

    @property
    def _issuer(self) -> TokenIssuer:
        return self._find_issuer()

    def subresource(self) -> Subresource:
        """Return the `token` subresource."""
        return Subresource(
            handler=self.create,
            default=default_token_request,
            prepare=self.prepare,
            verbs=("create",),
            kind=GroupVersionKind(GROUP, "v1", "TokenRequest"),
            status_code=201,
        )

    async def prepare(self, call: SubresourceRequest) -> None:
        """Complete and validate a request that mutating admission has accepted.

        The service account is read here, so that a kubelet that NodeRestriction rejects does not learn
        whether it exists, and the audiences are set here, because NodeRestriction compares those of the
        request.
        """
        request: Object = call.body or {}
        metadata, spec = dict(request.get("metadata") or {}), dict(request.get("spec") or {})
        name, namespace = call.name, call.namespace
        given = metadata.get("name")
        if given and given != name:
            why = "must match the service account name if specified"
            raise self._invalid(name, FieldError.invalid("metadata.name", given, why))
        account = await call.get()
        uid = account["metadata"]["uid"]
        if metadata.get("uid") and metadata["uid"] != uid and serving_version().includes("1.34-"):
            raise conflict(
                GroupResource(GROUP, "TokenRequest"),
                name,
                f"the UID in the token request ({metadata['uid']}) does not match the UID of the service "
                f"account ({uid})",
            )
        created = format_time(datetime.fromtimestamp(int(self._issuer.clock()), UTC))
        metadata.update(name=name, namespace=namespace, uid=uid, creationTimestamp=created)
        spec["audiences"] = [str(each) for each in spec.get("audiences") or self._issuer.audiences]
        self._check_duration(spec["expirationSeconds"])
        self._check_attestations(spec, spec.get("boundObjectRef"))
        call.body = {**request, "metadata": metadata, "spec": spec}

    async def create(self, call: SubresourceRequest) -> Object:
        """Sign a token for the service account in the URL."""
        request: Object = call.body or {}
        metadata, spec = request["metadata"], request["spec"]
        name, namespace, uid = call.name, call.namespace, metadata["uid"]
        audiences, seconds = spec["audiences"], spec["expirationSeconds"]
        bound: Object = {}
        reference = spec.get("boundObjectRef")
        if reference:
            bound = await self._bind(reference, namespace, name)
        limit = self._max_expiration
        if limit and seconds > limit:
            text = f"requested expiration of {seconds} seconds shortened to {limit} seconds"
            call.request.warnings.add(text)
            seconds = limit
        lifetime, warn_after = seconds, 0
        is_projected = "pod" in bound and seconds == _PROJECTED
        if self._extend_expiration and is_projected and set(audiences) <= set(self._issuer.audiences):
            lifetime, warn_after = _YEAR, seconds
        token_id = str(uuid.uuid4())
        if call.request.audit is not None:
            call.request.audit.annotations[_ISSUED] = f"JTI={token_id}"
        token = self._issuer.sign(
            namespace,
            name,
            uid,
            audiences=audiences,
            seconds=lifetime,
            bound=bound,
            warn_after=warn_after,
            token_id=token_id,
        )
        shows_uid = serving_version().includes("1.34-")
        return {
            "kind": "TokenRequest",
            "apiVersion": f"{GROUP}/v1",
            "metadata": {key: value for key, value in metadata.items() if key != "uid" or shows_uid},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": reference or None,
            },
            "status": {
                "token": token,
                "expirationTimestamp": format_time(
                    datetime.fromtimestamp(int(self._issuer.clock()) + seconds, UTC)
                ),
            },
        }

    def _check_attestations(self, spec: Object, reference: Object | None) -> None:
        given = spec.get("attestations")
        if (reference or {}).get("kind") in _WEBHOOKS:
            if len(given or {}) != 1:
                why = "webhook bound requests require exactly one admissionReviewAPIGroups attestation"
                raise self._invalid("", FieldError.invalid("spec.attestations", given, why))
        elif given:
            why = "attestations may only be specified with a webhook bound object reference"
            raise self._invalid("", FieldError.invalid("spec.attestations", given, why))

    def _check_duration(self, seconds: int) -> None:
        if seconds < _LEAST:
            why = "may not specify a duration less than 10 minutes"
        elif seconds > _MOST:
            why = "may not specify a duration larger than 2^32 seconds"
        else:
            return
        raise self._invalid("", FieldError.invalid("spec.expirationSeconds", seconds, why))

    def _invalid(self, name: str, error: FieldError) -> APIError:
        return invalid(GroupKind(GROUP, "TokenRequest"), name, [error])

    async def _bind(self, reference: Object, namespace: str, account: str) -> Object:
        gvk = GroupVersionKind.from_api_version(
            reference.get("apiVersion") or "", reference.get("kind") or ""
        )
        name = reference.get("name") or ""
        plural = (
            {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}.get(gvk.kind) if not gvk.group else None
        )
        if plural is None:
            shown = f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"
            raise BadRequest(f"cannot bind token to object of type {shown}")
        found = await self._read(plural, "" if plural == "nodes" else namespace, name)
        uid = found["metadata"]["uid"]
        bound: Object = {gvk.kind.lower(): {"name": name, "uid": uid}}
        if plural == "pods":
            spec = found.get("spec") or {}
            if (spec.get("serviceAccountName") or "") != account:
                raise BadRequest(
                    f'cannot bind token for serviceaccount "{account}" to pod running with different '
                    "serviceaccount name."
                )
            node = spec.get("nodeName")
            if node:
                bound["node"] = {"name": node}
                try:
                    bound["node"]["uid"] = (await self._read("nodes", "", node))["metadata"]["uid"]
                except NotFound:
                    pass  # The node's name alone still says where the pod is meant to run.
        if reference.get("uid") and reference["uid"] != uid:
            raise conflict(
                GroupResource("", gvk.kind),
                name,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in "
                "record. The object might have been deleted and then recreated",
            )
        return bound

    async def _read(self, plural: str, namespace: str, name: str) -> Object:
        store = self._server.store("", plural)
        assert store is not None
        return store.codec.unpack((item := await store.read(namespace, name)).value, item.mod_revision)


def token_invalidity(server: APIServer, clock: Callable[[], float], legacy_tokens: LegacyTokens) -> Lookup:
    """Return a function that reports why a token is invalid: its account or bound object was deleted or
    replaced."""

    async def find(plural: str, namespace: str, name: str) -> Object | None:
        found = await read_stored(server, plural, namespace, name)
        metadata: Object | None = found["metadata"] if found is not None else None
        return metadata

    def is_gone(metadata: Object) -> bool:
        deleted = metadata.get("deletionTimestamp") or ""
        return deleted != "" and parse_time(deleted).timestamp() < clock() - _LEEWAY

    async def account_problem(namespace: str, reference: Object) -> str:
        name, claimed = reference.get("name") or "", reference.get("uid")
        account = await find("serviceaccounts", namespace, name)
        if account is None:
            return f'serviceaccounts "{name}" not found'
        if account.get("uid") != claimed:
            return f"service account UID ({account.get('uid')}) does not match claim ({claimed})"
        return f"service account {namespace}/{name} has been deleted" if is_gone(account) else ""

    async def bound_problem(kind: str, namespace: str, reference: Object) -> str:
        found, claimed = await find(f"{kind}s", namespace, reference.get("name") or ""), reference.get("uid")
        if found is not None and found.get("uid") != claimed:
            uid = found.get("uid")
            return f"{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})"
        return "service account token has been invalidated" if found is None or is_gone(found) else ""

    async def problem(claims: Claims, request: HTTPRequest | None) -> str:
        private = claims.get("kubernetes.io") or {}
        namespace = private.get("namespace") or ""
        account = private.get("serviceaccount") or {}
        if "token" in (private.get("secret") or {}):
            return await legacy_tokens.problem(claims, request, clock)
        found = await account_problem(namespace, account)
        for kind in ("secret", "pod"):
            if not found and kind in private:
                found = await bound_problem(kind, namespace, private[kind])
        if not found and "node" in private and "pod" not in private:
            found = await bound_problem("node", "", private["node"])
        return found

    return problem
