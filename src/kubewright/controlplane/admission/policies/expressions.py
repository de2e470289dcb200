"""CEL environments and evaluation of policy expressions.

Objects are dynamic (`dyn`): a policy is compiled once for all kinds that it matches. `variables` are
expressions that are evaluated lazily and cached for the request.

The authorizer is asynchronous, expressions are not. An expression with a new access check is therefore
stopped, the check is executed, and the expression is evaluated again with its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from kubewright import cel
from kubewright.api.field_errors import aggregate
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.authentication.user import User
from kubewright.apiserver.authorization import AuthorizationAttributes, Authorizer, Decision
from kubewright.apiserver.resources.objects import Object

from .equivalents import Match, convert_between_groups
from .request_value import request_name, request_namespace

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class EvaluationError(Exception):
    """An expression could not be evaluated; the message is returned to the client."""


class OutOfBudget(EvaluationError):
    """The shared cost budget of all expressions is exceeded."""


@cache
def request_type() -> cel.Type:
    """The `request` variable."""
    text = cel.STRING

    def triple(name: str, last: str) -> cel.Type:
        return cel.object_type(f"kubernetes.{name}", {"group": text, "version": text, last: text})

    kind, resource = triple("GroupVersionKind", "kind"), triple("GroupVersionResource", "resource")
    user = cel.object_type(
        "kubernetes.UserInfo",
        {
            "username": text,
            "uid": text,
            "groups": cel.list_type(text),
            "extra": cel.map_type(text, cel.list_type(text)),
        },
    )
    return cel.object_type(
        "kubernetes.AdmissionRequest",
        {
            "kind": kind,
            "resource": resource,
            "subResource": text,
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": text,
            "name": text,
            "namespace": text,
            "operation": text,
            "userInfo": user,
            "dryRun": cel.BOOL,
            "options": cel.DYN,
        },
        null_fields=frozenset(("options",)),
    )


@cache
def namespace_type() -> cel.Type:
    """The `namespaceObject` variable."""
    text, time = cel.STRING, cel.timestamp_type()
    names = cel.map_type(text, text)
    metadata = {
        "name": text,
        "generateName": text,
        "namespace": text,
        "labels": names,
        "annotations": names,
        "UID": text,
        "creationTimestamp": time,
        "deletionGracePeriodSeconds": cel.INT,
        "deletionTimestamp": time,
        "generation": cel.INT,
        "resourceVersion": text,
        "finalizers": cel.list_type(text),
    }
    condition = {"status": text, "type": text, "lastTransitionTime": time, "message": text, "reason": text}
    conditions = cel.list_type(cel.object_type("kubernetes.NamespaceCondition", condition))
    return cel.object_type(
        "kubernetes.Namespace",
        {
            "metadata": cel.object_type("kubernetes.NamespaceMetadata", metadata),
            "spec": cel.object_type("kubernetes.NamespaceSpec", {"finalizers": cel.list_type(text)}),
            "status": cel.object_type(
                "kubernetes.NamespaceStatus", {"conditions": conditions, "phase": text}
            ),
        },
    )


def environment(
    *,
    params: bool = False,
    authorizer: bool = True,
    variables: Mapping[str, cel.Type] | None = None,
    mutating: bool = False,
    object_type: cel.Type | None = None,
    params_type: cel.Type | None = None,
) -> cel.Env:
    """Return the environment of an expression; undeclared types are dynamic."""
    object_type = object_type or cel.DYN
    names = {
        "object": object_type,
        "oldObject": object_type,
        "request": request_type(),
        "namespaceObject": namespace_type(),
    }
    if params:
        names["params"] = params_type or cel.DYN
    if authorizer:
        names["authorizer"] = cel.AUTHORIZER
        names["authorizer.requestResource"] = cel.RESOURCE_CHECK
    if variables is not None:
        names["variables"] = cel.object_type("kubernetes.variables", dict(variables))
    return cel.Env(names, types=(cel.OBJECT, cel.JSON_PATCH) if mutating else ())


def stored_type(type_: cel.Type) -> cel.Type:
    """Return the declared type of a variable whose value is already a CEL value."""
    return cel.DYN if type_.needs_conversion else type_


class AccessCheckPending(Exception):
    """An expression needs an access check that was not executed yet."""

    def __init__(self, check: cel.AccessCheck) -> None:
        super().__init__(check)
        self.check = check


class Permissions:
    """Results of access checks for the user of one request."""

    def __init__(self, authorizer: Authorizer, request: AdmissionAttributes) -> None:
        self._authorizer = authorizer
        self._request = request
        self._results: dict[cel.AccessCheck, cel.AccessDecision] = {}

    def values(self) -> dict[str, Any]:
        """Return the variables `authorizer` and `authorizer.requestResource`."""
        request = self._request
        about = cel.AccessCheck(
            group=request.resource.group,
            resource=request.resource.resource,
            subresource=request.subresource,
            namespace=request_namespace(request),
            name=request_name(request),
        )
        return {
            "authorizer": cel.Authorizer(self._decide),
            "authorizer.requestResource": cel.ResourceCheck(self._decide, about),
        }

    def _decide(self, check: cel.AccessCheck) -> cel.AccessDecision:
        result = self._results.get(check)
        if result is None:
            raise AccessCheckPending(check)
        return result

    async def authorize(self, check: cel.AccessCheck) -> None:
        """Authorize the user."""
        user = self._request.user
        if check.service_account is not None:
            namespace, name = check.service_account
            user = User(
                f"system:serviceaccount:{namespace}:{name}",
                ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
            )
        attributes = AuthorizationAttributes(
            user,
            check.verb,
            check.group,
            "*" if check.path is None else "",
            check.resource,
            check.subresource,
            check.namespace,
            check.name,
            check.path or "",
        )
        try:
            decision, reason = await self._authorizer.authorize(attributes)
        except Exception as error:
            self._results[check] = cel.AccessDecision(False, "", str(error))
            return
        self._results[check] = cel.AccessDecision(decision is Decision.ALLOW, reason)


class Variables(dict[str, Any]):
    """The `variables` of a policy for one request, evaluated on first use."""

    def __init__(
        self, programs: Mapping[str, cel.Program], values: Mapping[str, Any], budget: cel.Budget
    ) -> None:
        super().__init__()
        self._programs = programs
        self._values = values
        self._budget = budget
        self._errors: dict[str, cel.CelError] = {}

    def __missing__(self, name: str) -> Any:
        program = self._programs[name]
        known = self._errors.get(name)
        if known is not None:
            raise known
        try:
            value = self[name] = program({**self._values, "variables": self}, self._budget)
        except cel.CelError as error:
            known = self._errors[name] = cel.CelError(
                f'composited variable "{name}" fails to evaluate: {error}'
            )
            raise known from None
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._programs

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)


class Evaluation:
    """Evaluation of one policy for one request: values, access checks and cost."""

    def __init__(
        self,
        values: Mapping[str, Any],
        permissions: Permissions,
        *,
        variables: Mapping[str, cel.Program] | None = None,
        limit: int = cel.limits.RUNTIME_COST_BUDGET,
    ) -> None:
        self.budget = cel.Budget(limit)
        self.permissions = permissions
        self.values: dict[str, Any] = {**values, **permissions.values()}
        if variables is not None:
            self.values["variables"] = Variables(variables, self.values, self.budget)

    async def value(self, program: cel.Program) -> Any:
        """Return the value of an expression; raise `EvaluationError`."""
        while True:
            spent, allocated = self.budget.used, self.budget.allocation[0]
            try:
                return program(self.values, self.budget)
            except AccessCheckPending as pending:
                self.budget.used, self.budget.allocation[0] = spent, allocated
                await self.permissions.authorize(pending.check)
            except cel.CostExceeded as error:
                if self.budget.remaining < 0:
                    raise OutOfBudget(OUT_OF_BUDGET) from None
                raise EvaluationError(f"expression '{program.source}' resulted in error: {error}") from None
            except cel.CelError as error:
                raise EvaluationError(f"expression '{program.source}' resulted in error: {error}") from None


def compiled(env: cel.Env, text: str) -> cel.Program | EvaluationError:
    """A program, or its compilation error."""
    try:
        return env.compile(text)
    except (cel.CelCompileError, cel.CelError) as error:
        return EvaluationError(f"compilation error: compilation failed: {error}")


@lru_cache(maxsize=1024)
def match_condition(text: str) -> cel.Program | EvaluationError:
    """Return the program of a match condition of a webhook, or its compilation error."""
    return compiled(environment(), text)


async def conditions_hold(
    conditions: Iterable[cel.Program | EvaluationError], values: Mapping[str, Any], permissions: Permissions
) -> bool:
    """Return whether all match conditions hold; one that is false is decisive. Raises `EvaluationError`."""
    evaluation = Evaluation(values, permissions, limit=cel.limits.MATCH_CONDITIONS_BUDGET)
    errors: list[EvaluationError] = []
    for condition in conditions:
        try:
            if isinstance(condition, EvaluationError):
                raise condition
            if await evaluation.value(condition) is False:
                return False
        except OutOfBudget:
            raise
        except EvaluationError as error:
            errors.append(error)
    if errors:
        raise EvaluationError(aggregate(errors))
    return True


def namespace_value(namespace: Object | None) -> Object | None:
    """Return the `namespaceObject` variable: the fields of a namespace that Kubernetes exposes."""
    if namespace is None:
        return None
    metadata = {name: value for name, value in namespace["metadata"].items() if name != "managedFields"}
    shown: Object = {"metadata": metadata}
    for part in ("spec", "status"):
        if part in namespace:
            shown[part] = namespace[part]
    return shown


async def versioned(request: AdmissionAttributes, match: Match) -> tuple[Object | None, Object | None]:
    """Return object and old object in the version that the policy matches; do not change them."""
    if match.kind.group != request.kind.group:
        objects = (request.object, request.old_object)
        new, old = (convert_between_groups(obj, match.kind) if obj else None for obj in objects)
        return new, old
    if match.kind.version == request.kind.version or request.convert is None:
        return request.object, request.old_object
    shown: list[Object | None] = []
    for obj in (request.object, request.old_object):
        shown.append(await request.convert(_copied(obj), match.kind.version) if obj is not None else None)
    return shown[0], shown[1]


def _copied(obj: Object) -> Object:
    from kubewright.apiserver.resources.objects import deep_copy

    result: Object = deep_copy(obj)
    return result


def programs(
    env_of: Any, declared: Iterable[Object]
) -> tuple[dict[str, cel.Type], dict[str, cel.Program], EvaluationError | None]:
    """Compile `spec.variables` in order; each can use the previous ones."""
    types: dict[str, cel.Type] = {}
    made: dict[str, cel.Program] = {}
    for variable in declared:
        try:
            checked = env_of(types).check(variable["expression"])
            made[variable["name"]] = checked.compile()
        except (cel.CelCompileError, cel.CelError) as error:
            return types, made, EvaluationError(f"compilation error: compilation failed: {error}")
        types[variable["name"]] = stored_type(checked.type)
    return types, made, None
