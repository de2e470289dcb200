"""Common parts of validating and mutating admission policies: bindings, parameters, compiled expressions.

A policy declares expressions and the requests that it matches; a binding activates it, optionally for fewer
requests and with parameters. A policy without a binding has no effect. Policies are compiled on first use and
again when they change.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from kubewright import cel
from kubewright.api.selectors.label_selectors import SelectorError
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.controlplane.admission.sources import ObjectSource, ParamResource, ParamSource, StoredParams

from .equivalents import Match
from .expressions import (
    EvaluationError,
    Permissions,
    compiled,
    conditions_hold,
    environment,
    namespace_value,
    programs,
    versioned,
)
from .matching import exempt, label_selector, matches
from .request_value import request_value

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer
    from kubewright.tracing.admission_spans import PolicySpan
    from kubewright.tracing.source import SpanSink


GROUP = "admissionregistration.k8s.io"
Program: TypeAlias = "cel.Program | EvaluationError"


class ConfigurationError(Exception):
    """A policy or binding is misconfigured."""


class Compiled:
    """Compiled match conditions and variables of a policy."""

    mutating = False

    def __init__(self, policy: Object) -> None:
        spec = policy["spec"]
        self.name: str = policy["metadata"]["name"]
        self.policy = policy
        self.spec: Object = spec
        self.fails = (spec.get("failurePolicy") or "Fail") == "Fail"
        self.params = bool(spec.get("paramKind"))
        conditions = environment(params=self.params, mutating=self.mutating)
        self.conditions: list[Program] = [
            compiled(conditions, each["expression"]) for each in spec.get("matchConditions") or ()
        ]
        self.variable_types, self.variables, self.error = programs(
            lambda types: self.environment(variables=types), spec.get("variables") or ()
        )

    def environment(
        self, *, variables: Mapping[str, cel.Type] | None = None, authorizer: bool = True
    ) -> cel.Env:
        """Return the environment of expressions that can use the variables."""
        return environment(
            params=self.params,
            authorizer=authorizer,
            variables=self.variable_types if variables is None else variables,
            mutating=self.mutating,
        )


CompiledT = TypeVar("CompiledT", bound=Compiled)


class Invocation(NamedTuple, Generic[CompiledT]):
    """A policy, a binding and one parameter that apply to a request."""

    policy: CompiledT
    binding: Object
    match: Match
    param: Object | None


class Failure(NamedTuple):
    """A policy that could not be evaluated."""

    policy: Compiled
    binding: Object | None
    message: str


class Policies(AdmissionPlugin, Generic[CompiledT]):
    """Selects the policies that apply to a request."""

    policies = ""
    bindings = ""
    compile: type[CompiledT]

    def __init__(
        self, server: APIServer, informers: ObjectSource, *, params: ParamSource | None = None
    ) -> None:
        self.server = server
        self.informers = informers
        self._param_source = params or StoredParams(server)
        self._compiled: dict[str, tuple[Object, CompiledT]] = {}
        self.sinks: tuple[SpanSink, ...] = ()
        """Subscribers of the spans of evaluations."""
        self._ids = itertools.count(1)

    def handles(self, request: AdmissionAttributes) -> bool:
        """Return whether the request is subject to policies; policies and reviews are exempt."""
        return not exempt(request)

    async def invocations(
        self, request: AdmissionAttributes
    ) -> tuple[list[Invocation[CompiledT]], list[Failure]]:
        """Return the policies that apply with their bindings, and the failures."""
        policies = await self.informers.list(GROUP, self.policies)
        if not policies:
            return [], []
        bindings = await self.informers.list(GROUP, self.bindings)
        found: list[Invocation[CompiledT]] = []
        failures: list[Failure] = []
        for policy in policies:
            name = policy["metadata"]["name"]
            bound = [each for each in bindings if each["spec"].get("policyName") == name]
            if bound:
                await self._invocations_of(policy, bound, request, found, failures)
        return found, failures

    def start_span(self, request: AdmissionAttributes, invocation: Invocation[CompiledT]) -> PolicySpan:
        """Start the span of an evaluation; only while there are subscribers."""
        from kubewright.tracing.admission_spans import PolicySpan
        from kubewright.tracing.source import start_span

        policy, binding = invocation.policy.name, invocation.binding
        param = (invocation.param or {}).get("metadata") or {}
        kind = request.kind
        span = PolicySpan(
            f"{self.name}-{next(self._ids)}",
            f"{self.name}/{policy}",
            attributes={
                "operation": request.operation,
                "group": kind.group,
                "version": kind.version,
                "kind": kind.kind,
                "namespace": request.namespace,
                "name": request.name,
                "dryRun": request.dry_run,
            },
            user=request.user.name,
            object=deep_copy(request.object),
            old_object=request.old_object,
            response={
                "binding": binding["metadata"]["name"],
                "actions": binding["spec"].get("validationActions") or [],
                "param": "/".join(param[part] for part in ("namespace", "name") if param.get(part)),
            },
        )
        start_span(self.sinks, span)
        return span

    def end_span(self, span: PolicySpan, message: str, *, allowed: bool) -> None:
        """End the span of an evaluation."""
        from kubewright.tracing.source import end_span

        span.message, span.allowed = message, allowed
        span.finish()
        end_span(self.sinks, span)

    async def _invocations_of(
        self,
        policy: Object,
        bound: list[Object],
        request: AdmissionAttributes,
        found: list[Invocation[CompiledT]],
        failures: list[Failure],
    ) -> None:
        ready = self._ready(policy)
        try:
            match = await matches(self.informers, request, policy["spec"].get("matchConstraints") or {})
            if match is None:
                return
            kind = policy["spec"].get("paramKind")
            resource = await self._param_resource(kind) if kind else None
        except (SelectorError, ConfigurationError) as error:
            failures.append(Failure(ready, None, f"failed to configure policy: {error}"))
            return
        for binding in bound:
            spec = binding["spec"]
            try:
                if await matches(self.informers, request, spec.get("matchResources") or {}) is None:
                    continue
                for param in await self._params(resource, spec.get("paramRef"), request.namespace):
                    found.append(Invocation(ready, binding, match, param))
            except (SelectorError, ConfigurationError) as error:
                failures.append(Failure(ready, binding, f"failed to configure binding: {error}"))

    def _ready(self, policy: Object) -> CompiledT:
        name = policy["metadata"]["name"]
        known = self._compiled.get(name)
        if known is not None and known[0] is policy:
            return known[1]
        made = known[1] if known is not None and known[0]["spec"] == policy["spec"] else self.compile(policy)
        self._compiled[name] = (policy, made)
        return made

    async def _param_resource(self, kind: Object) -> ParamResource:
        found = await self._param_source.find(kind["apiVersion"], kind["kind"])
        if found is None:
            raise ConfigurationError(f"failed to find resource referenced by paramKind: '{_gvk(kind)}'")
        return found

    async def _params(
        self, resource: ParamResource | None, reference: Object | None, namespace: str
    ) -> Sequence[Object | None]:
        if resource is None or reference is None:
            return [None]
        where = ""
        if resource.namespaced:
            where = reference.get("namespace") or namespace
            if not where:
                raise ConfigurationError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif reference.get("namespace"):
            raise ConfigurationError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        params: list[Object] = []
        if reference.get("name"):
            found = await resource.get(where, reference["name"])
            params = [found] if found is not None else []
        elif reference.get("selector") is not None:
            selector = label_selector(reference["selector"])
            params = [
                obj for obj in await resource.list(where) if selector.matches(obj["metadata"].get("labels"))
            ]
        else:
            raise ConfigurationError("one of name or selector must be provided")
        if not params and reference.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return params

    async def values(self, request: AdmissionAttributes, invocation: Invocation[CompiledT]) -> Object:
        """Return the variables of a request; match conditions cannot use `namespaceObject`."""
        new, old = await versioned(request, invocation.match)
        values: Object = {
            "object": new,
            "oldObject": old,
            "request": request_value(request, invocation.match),
            "namespaceObject": None,
        }
        if invocation.policy.params:
            values["params"] = invocation.param
        return values

    async def namespace_object(self, request: AdmissionAttributes) -> Object | None:
        """Return the `namespaceObject` of a request."""
        if not request.namespace or (request.kind.kind == "Namespace" and not request.kind.group):
            return None
        return namespace_value(await self.informers.namespace(request.namespace))

    async def passes(
        self,
        request: AdmissionAttributes,
        invocation: Invocation[CompiledT],
        values: Object,
        permissions: Permissions,
    ) -> bool:
        """Return whether the match conditions hold; raise `EvaluationError` if that is undecided."""
        policy = invocation.policy
        try:
            return not policy.conditions or await conditions_hold(policy.conditions, values, permissions)
        except EvaluationError:
            if policy.fails:
                raise
            return False


def _gvk(kind: Object) -> str:
    group, _, version = kind["apiVersion"].rpartition("/")
    return f"{group}/{version}, Kind={kind['kind']}"
