"""MutatingAdmissionPolicy: CEL expressions that change objects.

A mutation is an apply configuration (`Object{spec: Object.spec{...}}`), merged as in server-side apply, or a
JSON patch. Mutations of a policy are applied in sequence. Policies with reinvocationPolicy IfNeeded are
evaluated again if the object changed after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubewright import cel
from kubewright.api.builtin.typed_codec import TypedDecodeError
from kubewright.api.errors import APIError, Forbidden, internal_error
from kubewright.api.gvk import GroupVersionKind
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.resources.object_schema import decode_fields, prune
from kubewright.apiserver.resources.objects import Object, deep_copy
from kubewright.apiserver.resources.resource import Resource
from kubewright.cel.syntax.ast import Call, Expr, ListExpr, StructExpr
from kubewright.controlplane.admission.rejection import other_kind, reject
from kubewright.patch import json_patch
from kubewright.patch.errors import PatchTestFailed
from kubewright.patch.merge import merge
from kubewright.patch.merge_schema import LIST, MAP, MergeSchema, object_merge_schema
from kubewright.patch.typed import TypedError, validate
from kubewright.schema.validation.metadata import MetadataError
from kubewright.schema.version import TooDeepError

from .equivalents import convert_between_groups, definition_of
from .expressions import Evaluation, EvaluationError, Permissions, compiled
from .policies import Compiled, Invocation, Policies, Program

if TYPE_CHECKING:
    from kubewright.tracing.admission_spans import PolicySpan


class CompiledMutatingPolicy(Compiled):
    """The expressions of one policy."""

    mutating = True

    def __init__(self, policy: Object) -> None:
        super().__init__(policy)
        env = self.environment()
        self.mutations: list[tuple[str, Program]] = []
        for each in self.spec.get("mutations") or ():
            part = each.get("applyConfiguration") or each.get("jsonPatch") or {}
            text = part.get("expression") or ""
            program = compiled(env, text)
            if isinstance(program, cel.Program):
                program = _misplaced(env.check(text).tree, "") or program
            self.mutations.append((each.get("patchType") or "", program))
        self.reinvokes = self.spec.get("reinvocationPolicy") == "IfNeeded"


class _Rounds:
    """State of mutations for one request."""

    def __init__(self) -> None:
        self.again: set[tuple[str, ...]] = set()
        """Policies that were evaluated and can be reinvoked."""
        self.waiting: set[tuple[str, ...]] = set()
        """Policies after which the object changed."""


class MutatingPolicies(Policies[CompiledMutatingPolicy]):
    """Applies the mutations of the policies."""

    name = "MutatingAdmissionPolicy"
    mutating = True
    reinvoke = True
    policies = "mutatingadmissionpolicies"
    bindings = "mutatingadmissionpolicybindings"
    compile = CompiledMutatingPolicy

    def wants_reinvocation(self, request: AdmissionAttributes) -> bool:
        """Return whether a policy has to be reinvoked."""
        rounds = request.state.get(type(self))
        return rounds is not None and bool(rounds.waiting)

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Apply the mutations of all matching policies."""
        invocations, failures = await self.invocations(request)
        if not invocations and not failures:
            return False
        messages = [
            _message(failure.policy.name, failure.binding, failure.message)
            for failure in failures
            if failure.policy.fails
        ]
        reason = "Forbidden"
        changed = False
        rounds: _Rounds = request.state.setdefault(type(self), _Rounds())
        permissions = Permissions(self.server.authorizer, request)
        for invocation in invocations:
            key = _key(invocation)
            span: PolicySpan | None = None
            problem: EvaluationError | None = None
            try:
                values = await self.values(request, invocation)
                if not await self.passes(request, invocation, values, permissions):
                    continue
                if request.reinvocation and key not in rounds.again:
                    continue
                span = self.start_span(request, invocation) if self.sinks else None
                effective, problem = await self._apply(request, invocation, permissions)
                if span is not None and effective and span.object is not None and request.object is not None:
                    span.patch = json_patch.diff(span.object, request.object)
                if effective:
                    changed = True
                    rounds.waiting |= rounds.again
                if invocation.policy.reinvokes:
                    rounds.again.add(key)
                    rounds.waiting.discard(key)
                if problem is not None:
                    raise problem
            except EvaluationError as error:
                problem = error
                if invocation.policy.fails:
                    if not messages:
                        reason = "Invalid"
                    messages.append(_message(invocation.policy.name, invocation.binding, str(error)))
            if span is not None:
                allowed = problem is None or not invocation.policy.fails
                self.end_span(span, str(problem or ""), allowed=allowed)
        if messages:
            raise _rejection(request, messages, reason)
        return changed

    async def _apply(
        self,
        request: AdmissionAttributes,
        invocation: Invocation[CompiledMutatingPolicy],
        permissions: Permissions,
    ) -> tuple[bool, EvaluationError | None]:
        """Return whether the mutations changed the object, and the first error; later mutations still
        apply."""
        policy = invocation.policy
        if policy.error is not None:
            raise policy.error
        if request.object is None:
            return False, None
        namespace = await self.namespace_object(request)
        first: EvaluationError | None = None
        changed = False
        for patch_type, program in policy.mutations:
            values = await self.values(request, invocation)
            values["namespaceObject"] = namespace
            evaluation = Evaluation(values, permissions, variables=policy.variables)
            shown = values["object"]
            try:
                if isinstance(program, EvaluationError):
                    raise program
                result = await evaluation.value(program)
                if patch_type == "JSONPatch":
                    new = _json_patched(shown, result)
                    _check_known(definition_of(self.server, request, invocation.match.kind), invocation, new)
                else:
                    new = self._configured(request, invocation, shown, result)
            except EvaluationError as error:
                first = first or error
                continue
            if new is not shown and new != shown:
                await self._take(request, invocation, new)
                changed = True
        return changed, first

    def _configured(
        self,
        request: AdmissionAttributes,
        invocation: Invocation[CompiledMutatingPolicy],
        shown: Object,
        result: Any,
    ) -> Object:
        config = _plain(result)
        if not isinstance(config, dict):
            raise EvaluationError("invalid return type: apply configurations are objects")
        config = {**config, "apiVersion": shown.get("apiVersion"), "kind": shown.get("kind")}
        definition = definition_of(self.server, request, invocation.match.kind)
        version = definition.version(invocation.match.kind.version) if definition else None
        shape = object_merge_schema(version.schema if version is not None else None)
        try:
            validate(config, shape)
        except TypedError as error:
            raise EvaluationError(
                f"error applying patch: failed to convert patch object to typed object: {error}"
            ) from None
        atomics = _atomics(config, shape, "")
        if atomics:
            raise EvaluationError(
                "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or "
                f"structs: {', '.join(atomics)}"
            )
        merged: Object = merge(shown, config, shape)
        return merged

    async def _take(
        self, request: AdmissionAttributes, invocation: Invocation[CompiledMutatingPolicy], new: Object
    ) -> None:
        """Set the result of a mutation as the object of the request: pruned, defaulted and converted."""
        new = deep_copy(new)
        if invocation.match.kind.group != request.kind.group:
            new = convert_between_groups(new, request.kind)
        elif invocation.match.kind.version != request.kind.version and request.definition is not None:
            store = self.server.store(request.definition.group, request.definition.plural)
            assert store is not None
            new = await store.convert(new, invocation.match.kind.version, request.kind.version)
        if request.renew is not None:
            request.renew(new)
        request.object = new


def _misplaced(expr: Expr, expected: str) -> EvaluationError | None:
    """Return the error of an object literal with the wrong type, such as `Object{spec: Object.status{}}`."""
    inner: list[tuple[Expr, str]] = []
    if isinstance(expr, StructExpr):
        if expected and expr.name != expected:
            return EvaluationError(
                f'type mismatch: unexpected type name "{expr.name}", expected "{expected}", which matches '
                "field name path from root Object type"
            )
        is_object = expr.name == "Object" or expr.name.startswith("Object.")
        inner = [(each.value, f"{expr.name}.{each.key}" if is_object else "") for each in expr.entries]
    elif isinstance(expr, ListExpr):
        inner = [(each, expected) for each in expr.elements]
    elif isinstance(expr, Call) and expr.function == "_?_:_":
        inner = [(each, expected) for each in expr.args[1:]]
    for part, place in inner:
        found = _misplaced(part, place)
        if found is not None:
            return found
    return None


def _plain(value: Any) -> Any:
    try:
        return cel.to_json(value)
    except cel.CelError as error:
        raise EvaluationError(str(error)) from None


def _json_patched(shown: Object, result: Any) -> Object:
    operations = [{"op": "", "path": "", **operation} for operation in _plain(result)]
    try:
        patched: Object = json_patch.apply(shown, operations)
    except PatchTestFailed:
        return shown
    except APIError as error:
        raise EvaluationError(f"JSON Patch: {error}") from None
    return patched


def _check_known(
    definition: Resource | None, invocation: Invocation[CompiledMutatingPolicy], new: Object
) -> None:
    """Reject a patch whose result has another kind, wrong types or unknown fields."""
    if definition is None or definition.custom:
        return
    kind = invocation.match.kind
    new.setdefault("apiVersion", str(kind.group_version))
    made = GroupVersionKind.from_api_version(new["apiVersion"] or "", new.get("kind") or "")
    if made != kind:
        raise internal_error(other_kind(made, kind))
    version = definition.version(kind.version)
    if version is None:
        return
    try:
        decode_fields(deep_copy(new), version, definition)
    except (MetadataError, TypedDecodeError, TooDeepError) as error:
        raise internal_error(str(error)) from None
    unknown = prune(deep_copy(new), version)
    if unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise internal_error(f"strict decoding error: {listed}")


def _atomics(value: Any, shape: MergeSchema, path: str) -> list[str]:
    """Return the paths of atomic values, which an apply configuration must not contain."""
    kind = shape.kind_of(value)
    found: list[str] = []
    if kind == MAP:
        if shape.map_atomic:
            found.append(path)
        for name, child in value.items() if isinstance(value, dict) else ():
            below = shape.child(name)
            if below is not None:
                found += _atomics(child, below, f"{path}.{name}")
    elif kind == LIST:
        if shape.list_atomic:
            found.append(path)
        for position, item in enumerate(value if isinstance(value, list) else ()):
            found += _atomics(item, shape.element, f"{path}[{position}]")
    return found


def _key(invocation: Invocation[CompiledMutatingPolicy]) -> tuple[str, str, str, str]:
    param = (invocation.param or {}).get("metadata") or {}
    binding = invocation.binding["metadata"]["name"]
    return invocation.policy.name, binding, param.get("namespace", ""), param.get("name", "")


def _message(policy: str, binding: Object | None, message: str) -> str:
    if binding is None:
        return f'policy "{policy}" denied request: {message}'
    return f"policy '{policy}' with binding '{binding['metadata']['name']}' denied request: {message}"


def _rejection(request: AdmissionAttributes, messages: list[str], reason: str) -> Forbidden:
    error = reject(request, "admission request denied by policy", [{"message": each} for each in messages])
    error.message = messages[0]
    error.status_reason = reason
    return error
