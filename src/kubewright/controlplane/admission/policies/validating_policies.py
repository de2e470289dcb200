"""ValidatingAdmissionPolicy: CEL expressions that validate requests."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any, NamedTuple

from kubewright import cel
from kubewright.api.errors import APIError
from kubewright.apiserver.admission import AdmissionAttributes
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.admission.rejection import reject

from .expressions import OUT_OF_BUDGET, Evaluation, EvaluationError, OutOfBudget, Permissions, compiled
from .policies import Compiled, Invocation, Policies, Program

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_LONGEST_ANNOTATION = 10 * 1024


class Validation(NamedTuple):
    """One expression with its message and reason."""

    expression: str
    program: Program
    message: str
    message_program: Program | None
    reason: str


class CompiledValidatingPolicy(Compiled):
    """The expressions of one policy."""

    def __init__(self, policy: Object) -> None:
        super().__init__(policy)
        env, plain = self.environment(), self.environment(authorizer=False)
        self.validations = [
            Validation(
                each["expression"],
                compiled(env, each["expression"]),
                each.get("message") or "",
                compiled(plain, each["messageExpression"]) if each.get("messageExpression") else None,
                each.get("reason") or "Invalid",
            )
            for each in self.spec.get("validations") or ()
        ]
        self.annotations = [
            (each["key"], each["valueExpression"], compiled(plain, each["valueExpression"]))
            for each in self.spec.get("auditAnnotations") or ()
        ]


class Denial(NamedTuple):
    """One denial by a policy."""

    position: int
    message: str
    reason: str = "Invalid"

    @property
    def error_type(self) -> str:
        """The label `error_type` of metrics; kube-apiserver derives it from the message, too."""
        if self.message.startswith("compilation"):
            return "compile_error"
        return "out_of_budget" if self.message.startswith(OUT_OF_BUDGET) else "invalid_error"


class ValidatingPolicies(Policies[CompiledValidatingPolicy]):
    """Evaluates the policies and applies the actions of their bindings: deny, warn, audit."""

    name = "ValidatingAdmissionPolicy"
    validating = True
    policies = "validatingadmissionpolicies"
    bindings = "validatingadmissionpolicybindings"
    compile = CompiledValidatingPolicy

    async def validate(self, request: AdmissionAttributes) -> None:
        """Reject requests that a policy with the action `Deny` denies."""
        invocations, failures = await self.invocations(request)
        if not invocations and not failures:
            return
        denials = [
            _rejection(request, failure.policy.name, failure.binding, failure.message, "Invalid")
            for failure in failures
            if failure.policy.fails
        ]
        audited: list[Object] = []
        for invocation in invocations:
            span = self.start_span(request, invocation) if self.sinks else None
            before = len(denials)
            started = perf_counter()
            found = await self._evaluate(request, invocation)
            elapsed = perf_counter() - started
            for denial, always in found:
                for action in self._act(request, invocation, denial, audited, denials, always):
                    self.server.metrics.admission.observe_policy(
                        invocation.policy.name,
                        invocation.binding["metadata"]["name"],
                        action.lower(),
                        elapsed,
                        error=denial.error_type,
                    )
            if span is not None:
                message = "; ".join(denial.message for denial, _ in found)
                self.end_span(span, message, allowed=len(denials) == before)
        if audited:
            request.audit_annotations["validation.policy.admission.k8s.io/validation_failure"] = json.dumps(
                audited, separators=(",", ":")
            )
        if denials:
            raise denials[0]

    def _act(
        self,
        request: AdmissionAttributes,
        invocation: Invocation[CompiledValidatingPolicy],
        denial: Denial,
        audited: list[Object],
        denials: list[APIError],
        always: bool,
    ) -> list[str]:
        """Apply the actions of a binding to a denial; return them."""
        policy, binding = invocation.policy.name, invocation.binding
        actions = ["Deny"] if always else binding["spec"].get("validationActions") or []
        for action in actions:
            if action == "Deny":
                denials.append(_rejection(request, policy, binding, denial.message, denial.reason))
            elif action == "Warn":
                request.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding "
                    f"'{binding['metadata']['name']}': {denial.message}"
                )
            elif action == "Audit":
                audited.append(
                    {
                        "message": denial.message,
                        "policy": policy,
                        "binding": binding["metadata"]["name"],
                        "expressionIndex": denial.position,
                        "validationActions": actions,
                    }
                )
        return list(actions)

    async def _evaluate(
        self, request: AdmissionAttributes, invocation: Invocation[CompiledValidatingPolicy]
    ) -> list[tuple[Denial, bool]]:
        """Return the failed validations; `True` marks those that are denied whatever the binding's
        actions."""
        policy = invocation.policy
        if policy.error is not None:
            return [(Denial(0, str(policy.error)), False)] if policy.fails else []
        permissions = Permissions(self.server.authorizer, request)
        values = await self.values(request, invocation)
        try:
            if not await self.passes(request, invocation, values, permissions):
                return []
            values["namespaceObject"] = await self.namespace_object(request)
            evaluation = Evaluation(values, permissions, variables=policy.variables)
            results = [await _result(evaluation, each.program) for each in policy.validations]
        except EvaluationError as error:
            return [(Denial(0, str(error)), False)] if policy.fails else []
        denials: list[tuple[Denial, bool]] = []
        for position, (validation, result) in enumerate(zip(policy.validations, results, strict=True)):
            if isinstance(result, EvaluationError):
                if policy.fails:
                    denials.append((Denial(position, str(result)), False))
            elif result is not True:
                denials.append((await self._denial(position, validation, evaluation, policy), False))
        denials += [(denial, True) for denial in await self._annotate(request, policy, evaluation)]
        return denials

    async def _denial(
        self, position: int, validation: Validation, evaluation: Evaluation, policy: CompiledValidatingPolicy
    ) -> Denial:
        message = ""
        if isinstance(validation.message_program, cel.Program):
            try:
                value = await evaluation.value(validation.message_program)
            except OutOfBudget as error:
                return Denial(position, f"failed messageExpression: {error}")
            except EvaluationError:
                value = None
            if isinstance(value, str):
                message = value.strip()
                if len(message.encode()) > cel.limits.MAX_MESSAGE_SIZE or "\n" in message:
                    message = ""
        message = (
            message or validation.message.strip() or f"failed expression: {validation.expression.strip()}"
        )
        return Denial(position, message, validation.reason)

    async def _annotate(
        self, request: AdmissionAttributes, policy: CompiledValidatingPolicy, evaluation: Evaluation
    ) -> list[Denial]:
        denials: list[Denial] = []
        for position, (key, expression, program) in enumerate(policy.annotations):
            result = await _result(evaluation, program)
            if isinstance(result, EvaluationError):
                if policy.fails:
                    denials.append(Denial(position, str(result)))
            elif isinstance(result, str):
                text = result.strip()[:_LONGEST_ANNOTATION]
                if text:
                    _publish(request, f"{policy.name}/{key}", text)
            elif result is not None:
                denials.append(
                    Denial(
                        position,
                        f"valueExpression '{expression}' resulted in unsupported return type: "
                        f"{type(result).__name__}. Return type must be either string or null.",
                    )
                )
        return denials


async def _result(evaluation: Evaluation, program: Program) -> Any:
    """Return the value or error of one expression; an exceeded budget ends the evaluation."""
    if isinstance(program, EvaluationError):
        return program
    try:
        return await evaluation.value(program)
    except OutOfBudget:
        raise
    except EvaluationError as error:
        return error


def _publish(request: AdmissionAttributes, key: str, text: str) -> None:
    known = request.audit_annotations.get(key)
    if known is None:
        request.audit_annotations[key] = text
    elif text not in known.split(", "):
        request.audit_annotations[key] = f"{known}, {text}"


def _rejection(
    request: AdmissionAttributes, policy: str, binding: Object | None, message: str, reason: str
) -> APIError:
    who = f"ValidatingAdmissionPolicy '{policy}'"
    if binding is not None:
        who += f" with binding '{binding['metadata']['name']}'"
    text = f"{who} denied request: {message}"
    error = reject(request, text, [{"message": text}])
    error.status_reason, error.status_code = reason, _CODES.get(reason, 422)
    return error
