"""What CEL expressions of admission see: the objects, the request, the authorizer.

`request_type()` and `request_value()` are the `request` variable, `authorizer_values()` binds `authorizer` and
`authorizer.requestResource` to the server's authorizer for the user of a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from kubewright import cel
from kubewright.api.field_errors import aggregate
from kubewright.apiserver.admission import AdmissionRequest
from kubewright.apiserver.authorization import Attributes, Authorizer
from kubewright.apiserver.authorization import Decision as Verdict
from kubewright.apiserver.user import AUTHENTICATED, User

_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


@cache
def request_type() -> cel.Type:
    """The type of `request`."""
    string = cel.STRING
    kind = cel.object_type(
        "kubernetes.GroupVersionKind", {"group": string, "version": string, "kind": string}
    )
    resource = cel.object_type(
        "kubernetes.GroupVersionResource", {"group": string, "version": string, "resource": string}
    )
    strings = cel.list_type(string)
    user = cel.object_type(
        "kubernetes.UserInfo",
        {"username": string, "uid": string, "groups": strings, "extra": cel.map_type(string, strings)},
    )
    return cel.object_type(
        "kubernetes.AdmissionRequest",
        {
            "kind": kind,
            "resource": resource,
            "subResource": string,
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": string,
            "name": string,
            "namespace": string,
            "operation": string,
            "userInfo": user,
            "dryRun": cel.BOOL,
            "options": cel.DYN,
        },
    )


@cache
def match_environment() -> cel.Env:
    """The environment of match conditions."""
    return cel.Env(
        {
            "object": cel.DYN,
            "oldObject": cel.DYN,
            "request": request_type(),
            "authorizer": cel.AUTHORIZER,
            "authorizer.requestResource": cel.RESOURCE_CHECK,
        }
    )


def authorizer_values(request: AdmissionRequest, authorizer: Authorizer) -> dict[str, Any]:
    """`authorizer` and `authorizer.requestResource` for the user of a request."""

    def decide(question: cel.Question) -> cel.Decision:
        user = request.user
        if question.service_account is not None:
            namespace, name = question.service_account
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
            user = User(f"system:serviceaccount:{namespace}:{name}", groups)
        attributes = Attributes(
            user,
            question.verb,
            question.group,
            "*" if question.path is None else "",
            question.resource,
            question.subresource,
            question.namespace,
            question.name,
            question.path or "",
            question.field_selector or "",
            question.label_selector or "",
        )
        try:
            verdict, reason = _now(authorizer.authorize(attributes))
        except Exception as error:
            return cel.Decision(False, "", str(error))
        return cel.Decision(verdict is Verdict.ALLOW, reason)

    here = cel.Question(
        group=request.resource.group,
        resource=request.resource.resource,
        subresource=request.subresource,
        namespace=request.namespace,
        name=request.name,
    )
    return {
        "authorizer": cel.Authorizer(decide),
        "authorizer.requestResource": cel.ResourceCheck(decide, here),
    }


def _now(answer: Any) -> Any:
    """The result of a coroutine that does not have to wait: rules are looked up in memory."""
    try:
        answer.send(None)
    except StopIteration as done:
        return done.value
    answer.close()
    raise RuntimeError("the authorizer cannot be asked inside of an expression: it waits for something")


class MatchConditions:
    """The conditions of one webhook, compiled when they are first asked."""

    def __init__(self, conditions: Sequence[dict[str, str]]) -> None:
        self._expressions = [condition.get("expression") or "" for condition in conditions]
        self._programs: list[cel.Program | str] | None = None

    def decide(self, variables: dict[str, Any]) -> bool | str:
        """Whether all conditions hold; a text where that cannot be told. A false one decides at once."""
        if self._programs is None:
            self._programs = [_compiled(text) for text in self._expressions]
        budget = cel.Budget(cel.limits.MATCH_CONDITIONS_BUDGET)
        problems: list[str] = []
        for text, program in zip(self._expressions, self._programs, strict=True):
            if isinstance(program, str):
                problems.append(program)
                continue
            try:
                if program(variables, budget) is False:
                    return False
            except cel.CostExceeded as error:
                if budget.used > budget.limit:
                    return _OUT_OF_BUDGET
                problems.append(f"expression '{text}' resulted in error: {error}")
            except cel.CelError as error:
                problems.append(f"expression '{text}' resulted in error: {error}")
        return aggregate(problems) if problems else True


def _compiled(text: str) -> cel.Program | str:
    try:
        return match_environment().check(text, expected=cel.BOOL).compile()
    except cel.CelResultError as error:
        return str(error)
    except (cel.CelCompileError, cel.CelError) as error:
        return f"compilation failed: {error}"
