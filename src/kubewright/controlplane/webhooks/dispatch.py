"""The admission plug-ins that call webhooks.

Mutating webhooks are called in sequence, each with the object that the previous one returned. If the object
changes after a webhook with reinvocationPolicy IfNeeded was called, that webhook is called again. Validating
webhooks are called concurrently; the first rejection is returned.

If a webhook fails or its response is invalid, its failurePolicy decides whether the request is rejected or
the webhook ignored.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.builtin.typed_codec import TypedDecodeError
from kubewright.api.errors import APIError, BadRequest, forbidden, internal_error
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin
from kubewright.apiserver.encoding.negotiation import encode
from kubewright.apiserver.resources.object_schema import decode_fields, prune
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.controlplane.admission.policies.equivalents import (
    Match,
    convert_between_groups,
    definition_of,
)
from kubewright.controlplane.admission.policies.matching import selects_namespace, selects_object
from kubewright.controlplane.admission.policies.request_value import request_value
from kubewright.patch import json_patch
from kubewright.patch.errors import PatchDoesNotApply
from kubewright.schema.validation.metadata import MetadataError
from kubewright.schema.version import TooDeepError

from .client import CallError, WebhookClient
from .hook import Hook, HookIndex
from .review import BadPatch, Undecodable, WebhookResponse, admission_review, parse_response, rejection

if TYPE_CHECKING:
    from kubewright.apiserver import APIServer
    from kubewright.controlplane.admission.sources import ObjectSource

logger = logging.getLogger("kubewright.controlplane")

_EXEMPT: Final = frozenset(
    (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    )
)


class _Versions:
    """Objects of a request, converted to the versions and groups that webhooks match."""

    def __init__(self, request: AdmissionAttributes) -> None:
        self._request = request
        self.kind = request.kind
        self.object = request.object
        self._old: dict[GroupVersionKind, Object | None] = {self.kind: request.old_object}

    async def show(self, form: Match) -> tuple[Object | None, Object | None]:
        """Return object and old object in a version; the object stays converted."""
        wanted = form.kind
        if wanted != self.kind:
            self.object = await self._converted(self.object, self.kind, wanted)
            self.kind = wanted
        if wanted not in self._old:
            before = self._request.old_object
            self._old[wanted] = await self._converted(before, self._request.kind, wanted)
        return self.object, self._old[wanted]

    async def _converted(
        self, obj: Object | None, source: GroupVersionKind, target: GroupVersionKind
    ) -> Object | None:
        definition = self._request.definition
        if obj is None or definition is None:
            return obj
        if source.group != target.group:
            return convert_between_groups(obj, target)
        if definition.converter is None:
            return obj
        made: Any = definition.converter.convert([deep_copy(obj)], source.version, target.version)
        if inspect.isawaitable(made):
            made = await made
        converted: Object = made[0]
        version = definition.version(target.version)
        if version is not None:
            prune(converted, version)
        return converted

    async def settle(self) -> Object | None:
        """Convert the object back to the version of the request."""
        wanted = self._request.kind
        if self.kind != wanted:
            self.object = await self._converted(self.object, self.kind, wanted)
            self.kind = wanted
        return self.object


class _Webhooks(AdmissionPlugin):
    """Common base of the mutating and the validating plug-in."""

    plural = ""

    def __init__(self, server: APIServer, client: WebhookClient, informers: ObjectSource) -> None:
        self._server = server
        self._client = client
        self._informers = informers
        self._index = HookIndex(informers, self.plural)

    def handles(self, request: AdmissionAttributes) -> bool:
        """Return whether the request is subject to webhooks; admission configuration is exempt."""
        if self._index.is_empty:
            return False
        return request.kind.group != "admissionregistration.k8s.io" or request.kind.kind not in _EXEMPT

    async def _wanted(self, hook: Hook, request: AdmissionAttributes, versions: _Versions) -> Match | None:
        """Return the form in which a webhook is to be called, or `None`."""
        form = hook.matching(request)
        if (
            form is None
            or not selects_object(hook.objects, request)
            or not await selects_namespace(hook.namespaces, request, self._informers)
        ):
            return None
        if hook.conditions:
            from kubewright.controlplane.admission.policies import expressions

            obj, old = await versions.show(form)
            values = {"object": obj, "oldObject": old, "request": request_value(request, form)}
            permissions = expressions.Permissions(self._server.authorizer, request)
            programs = map(expressions.match_condition, hook.conditions)
            try:
                return form if await expressions.conditions_hold(programs, values, permissions) else None
            except expressions.EvaluationError as error:
                if hook.ignores_failure:
                    return None
                raise forbidden(request.resource.group_resource, _name(request), str(error)) from None
        return form

    async def _ask(
        self,
        hook: Hook,
        request: AdmissionAttributes,
        form: Match,
        obj: Object | None,
        old: Object | None,
        mutating: bool,
    ) -> WebhookResponse:
        """Call a webhook, and count the call; raise `CallError`."""
        started, rejected = perf_counter(), True
        code, error_type = 0, "apiserver_internal_error"
        try:
            response = await self._call(hook, request, form, obj, old, mutating)
            if response.allowed:
                code, error_type, rejected = 200, "no_error", False
                return response
            error = rejection(hook.name, response.status)
            code, error_type = error.status_code, "no_error"
            raise error
        except CallError:
            code, error_type, rejected = 500, "calling_webhook_error", not hook.ignores_failure
            raise
        finally:
            self._server.metrics.admission.observe_webhook(
                hook.name,
                request.operation,
                "admit" if mutating else "validating",
                perf_counter() - started,
                code=code,
                rejected=rejected,
                error_type=error_type,
            )

    async def _call(
        self,
        hook: Hook,
        request: AdmissionAttributes,
        form: Match,
        obj: Object | None,
        old: Object | None,
        mutating: bool,
    ) -> WebhookResponse:
        """Call a webhook and return its response; raise `CallError`."""
        if request.dry_run and not hook.dry_runs:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        try:
            review = admission_review(hook, request, form, obj, old)
        except CallError as error:
            raise CallError(f"could not create admission objects: {error}") from None
        try:
            body = await self._client.post(
                hook.target,
                encode(review),
                timeout=hook.timeout,
                deadline=_deadline(request),
                review_type="mutating" if mutating else "validating",
            )
        except CallError as error:
            raise CallError(f"failed to call webhook: {error}") from None
        try:
            response = parse_response(review, body, mutating=mutating)
        except Undecodable as error:
            raise CallError(f"failed to call webhook: {error}") from None
        except BadPatch as error:
            raise CallError(f"received undecodable patch in webhook response: {error}") from None
        except CallError as error:
            raise CallError(f"received invalid webhook response: {error}") from None
        for key, value in response.annotations.items():
            request.audit_annotations[f"{hook.name}/{key}"] = value
        for text in response.warnings:
            request.warn(text)
        return response

    def _failed(self, hook: Hook, request: AdmissionAttributes, error: CallError, mark: str) -> None:
        """Apply the failurePolicy of a webhook whose call failed."""
        if not hook.ignores_failure:
            raise internal_error(f'failed calling webhook "{hook.name}": {error}') from None
        logger.warning("failed calling webhook, failing open %s: %s", hook.name, error)
        request.audit_annotations[mark] = hook.name


def _deadline(request: AdmissionAttributes) -> float | None:
    return request.request.deadline if request.request is not None else None


def _name(request: AdmissionAttributes) -> str:
    return request.name or ((request.object or {}).get("metadata") or {}).get("name") or ""


class _Rounds:
    """State of the mutating webhooks over both rounds of a request."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        """Reinvocable webhooks called since the object last changed."""
        self.again: set[str] = set()
        """Webhooks that have to be called again."""
        self.output: Object | None = None

    def changed(self) -> None:
        """Schedule reinvocation after the object changed."""
        self.again |= self.seen
        self.seen = set()


class MutatingWebhooks(_Webhooks):
    """MutatingAdmissionWebhook."""

    name = "MutatingAdmissionWebhook"
    plural = "mutatingwebhookconfigurations"
    mutating = True
    reinvoke = True

    def wants_reinvocation(self, request: AdmissionAttributes) -> bool:
        """Return whether a webhook has to be called again."""
        rounds = request.state.get(self.name)
        return isinstance(rounds, _Rounds) and bool(rounds.again)

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Call all matching webhooks in order."""
        hooks = await self._index.hooks()
        rounds = request.state.setdefault(self.name, _Rounds())
        if request.reinvocation and rounds.output != request.object:
            rounds.changed()
        versions = _Versions(request)
        changed = False
        for position, hook in enumerate(hooks):
            form = await self._wanted(hook, request, versions)
            if form is None or (request.reinvocation and hook.key not in rounds.again):
                continue
            mark = f"round_{int(request.reinvocation)}_index_{position}"
            obj, old = await versions.show(form)
            try:
                response = await self._ask(hook, request, form, obj, old, mutating=True)
            except CallError as error:
                self._failed(hook, request, error, f"failed-open.mutation.webhook.admission.k8s.io/{mark}")
                continue
            if response.patch:
                patched = self._patched(hook, request, form, obj, response.patch)
                if patched != obj:
                    rounds.changed()
                    changed = True
                versions.object = patched
                request.object = patched if versions.kind == request.kind else request.object
            if hook.reinvocable:
                rounds.seen.add(hook.key)
        if changed:
            request.object = await versions.settle()
        if not request.reinvocation and (rounds.seen or rounds.again):
            rounds.output = deep_copy(request.object)
        return changed

    def _patched(
        self, hook: Hook, request: AdmissionAttributes, form: Match, obj: Object | None, patch: list[Any]
    ) -> Object:
        if obj is None:
            raise internal_error(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported '
                "for this operation"
            )
        try:
            patched: Object = deep_copy(json_patch.apply(obj, patch))
        except PatchDoesNotApply as error:
            raise internal_error(error.why) from None
        except APIError as error:
            raise internal_error(error.message) from None
        definition = definition_of(self._server, request, form.kind)
        version = definition.version(form.kind.version) if definition is not None else None
        has_metadata = request.operation == "CONNECT" or type(patched.get("metadata")) is dict
        if type(patched) is not dict or not has_metadata:
            raise internal_error(f'the patch of admission webhook "{hook.name}" leaves no object')
        if definition is not None and version is not None:
            if not definition.custom:
                _check_kind(patched, form.kind)
            try:
                decode_fields(patched, version, definition)
            except (MetadataError, TypedDecodeError, TooDeepError) as error:
                raise internal_error(str(error)) from None
        return patched


def _check_kind(patched: Object, kind: GroupVersionKind) -> None:
    """Reject a patch that changes the kind of the object."""
    made = GroupVersionKind.from_api_version(patched.get("apiVersion") or "", patched.get("kind") or "")
    if made == kind:
        return
    from kubewright.controlplane.admission.rejection import other_kind

    text = other_kind(made, kind)
    raise APIError(text) if text.startswith("converting") else internal_error(text)


class ValidatingWebhooks(_Webhooks):
    """ValidatingAdmissionWebhook."""

    name = "ValidatingAdmissionWebhook"
    plural = "validatingwebhookconfigurations"
    validating = True

    async def validate(self, request: AdmissionAttributes) -> None:
        """Call all matching webhooks concurrently."""
        calls = []
        versions = _Versions(request)
        shown: dict[GroupVersionKind, tuple[Object | None, Object | None]] = {}
        for hook in await self._index.hooks():
            form = await self._wanted(hook, request, versions)
            if form is not None:
                if form.kind not in shown:
                    await versions.settle()
                    shown[form.kind] = await versions.show(form)
                calls.append((hook, form, *shown[form.kind]))
        if not calls:
            return
        responses = await asyncio.gather(
            *(self._ask(hook, request, form, obj, old, mutating=False) for hook, form, obj, old in calls),
            return_exceptions=True,
        )
        for position, ((hook, *_), response) in enumerate(zip(calls, responses, strict=True)):
            if isinstance(response, CallError):
                mark = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{position}"
                self._failed(hook, request, response, mark)
            elif isinstance(response, BaseException):
                raise response
