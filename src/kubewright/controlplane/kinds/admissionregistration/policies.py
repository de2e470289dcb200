"""Validating and mutating admission policies, and their bindings: defaults, rules, printing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubewright.api.names import check_dns_1035_label, check_dns_subdomain, check_path_segment
from kubewright.apiserver.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, UNSET, column, counted, field, shown
from kubewright.controlplane.kinds.validation.conditions import condition_list_errors
from kubewright.controlplane.kinds.validation.formats import Errors, dns_subdomain, named, qualified_name
from kubewright.schema import field_errors as fe

from .resource_rules import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    default_match_resources,
    environment,
    expression_errors,
    match_condition_errors,
    match_resources_errors,
    one_of,
)

if TYPE_CHECKING:
    from kubewright import cel

ACTIONS = ("Audit", "Deny", "Warn")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
        "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
_SOMETHING = "validations or auditAnnotations must contain at least one item"


def _default_policy(policy: Object) -> None:
    spec = policy.get("spec")
    if isinstance(spec, dict):
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        default_match_resources(spec.get("matchConstraints"))


def _default_binding(binding: Object) -> None:
    default_match_resources(field(binding, "spec.matchResources"))


class _Compiler:
    """Checks the expressions of one policy; those after `variables` see them."""

    def __init__(self, spec: Object, *, mutating: bool = False) -> None:
        self.params = spec.get("paramKind") is not None
        self.mutating = mutating
        self.variables: dict[str, cel.Type] | None = {} if mutating or spec.get("variables") else None

    def errors(
        self, text: str, path: str, *expected: cel.Type, authorizer: bool = True, shown: str | None = None
    ) -> Errors:
        """Of an expression whose result is one of some types."""
        return expression_errors(self.env(authorizer=authorizer), text, path, *expected, shown=shown)

    def env(self, *, authorizer: bool = True) -> cel.Env:
        """What expressions see by now."""
        return environment(
            params=self.params, authorizer=authorizer, variables=self.variables, mutating=self.mutating
        )

    def declare(self, name: str, text: str, path: str) -> Errors:
        """A variable, which the expressions after it see. It makes no objects: only mutations do."""
        from kubewright import cel

        env = environment(params=self.params, authorizer=True, variables=self.variables)
        errors = expression_errors(env, text, path)
        if self.variables is not None:
            self.variables[name] = env.check(text).type if not errors else cel.DYN
        return errors


def _common_errors(spec: Object, old: Object | None) -> Errors:
    errors = one_of(spec.get("failurePolicy"), FAILURE_POLICIES, "spec.failurePolicy")
    param = spec.get("paramKind")
    if param is not None:
        errors += _param_kind_errors(param)
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.append(fe.required("spec.matchConstraints", ""))
    else:
        errors += match_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.append(fe.required("spec.matchConstraints.resourceRules", ""))
    return errors


def _condition_errors(spec: Object, old: Object | None) -> Errors:
    before = (old or {}).get("spec") or {}
    if old is not None and all(
        spec.get(name) == before.get(name) for name in ("paramKind", "matchConditions")
    ):
        return []
    params = spec.get("paramKind") is not None
    return match_condition_errors(spec.get("matchConditions") or [], params, "spec.matchConditions")


def _param_kind_errors(param: Object) -> Errors:
    version, kind, path = param.get("apiVersion") or "", param.get("kind") or "", "spec.paramKind"
    errors: Errors = []
    where = f"{path}.apiVersion"
    group, _, short = version.rpartition("/")
    if not version:
        errors.append(fe.required(where, ""))
    elif version.count("/") > 1:
        errors.append(fe.invalid(where, version, f"unexpected GroupVersion string: {version}"))
    else:
        wrong = check_dns_subdomain(group) if group else []
        if wrong:
            errors.append(fe.invalid(where, group, ",".join(wrong)))
        if not short:
            errors.append(fe.invalid(where, version, "version must be specified"))
        elif wrong := check_dns_1035_label(short):
            errors.append(fe.invalid(where, short, ",".join(wrong)))
    if not kind:
        errors.append(fe.required(f"{path}.kind", ""))
    elif wrong := check_dns_1035_label(kind.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.append(fe.invalid(f"{path}.kind", kind, text))
    return errors


def _variable_errors(spec: Object, compiler: _Compiler) -> Errors:
    errors: Errors = []
    for position, variable in enumerate(spec.get("variables") or ()):
        path = f"spec.variables[{position}]"
        name, text = variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            errors.append(fe.required(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            errors.append(fe.invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        if not text.strip():
            errors.append(fe.required(f"{path}.expression", "expression is not specified"))
        else:
            errors += compiler.declare(name, text, f"{path}.expression")
    return errors


# Validating


def _validating_errors(policy: Object, old: Object | None = None) -> Errors:
    spec = policy.get("spec") or {}
    compiler = _Compiler(spec)
    errors = _common_errors(spec, old) + _condition_errors(spec, old) + _variable_errors(spec, compiler)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        missing = [fe.required(f"spec.{name}", _SOMETHING) for name in ("validations", "auditAnnotations")]
        return errors + missing
    for position, validation in enumerate(validations):
        errors += _validation_errors(validation, compiler, f"spec.validations[{position}]")
    if len(annotations) > 20:
        text = "must not have more than 20 auditAnnotations"
        errors.append(fe.invalid("spec.auditAnnotations", annotations, text))
    seen: set[str] = set()
    for position, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{position}]", annotation.get("key") or ""
        errors += _annotation_errors(policy, annotation, compiler, path)
        if key in seen:
            errors.append(fe.duplicate(f"{path}.key", key))
        seen.add(key)
    return errors


def _validation_errors(validation: Object, compiler: _Compiler, path: str) -> Errors:
    from kubewright import cel

    errors: Errors = []
    text, message = validation.get("expression") or "", validation.get("message") or ""
    if not text.strip():
        errors.append(fe.required(f"{path}.expression", "expression is not specified"))
    else:
        errors += compiler.errors(text, f"{path}.expression", cel.BOOL)
    worded = validation.get("messageExpression") or ""
    if worded and not worded.strip():
        text = "must be non-empty if specified"
        errors.append(fe.invalid(f"{path}.messageExpression", worded, text))
    elif worded:
        errors += compiler.errors(worded, f"{path}.messageExpression", cel.STRING, authorizer=False)
    if message and not message.strip():
        errors.append(fe.invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        errors.append(fe.invalid(f"{path}.message", message, "must not contain line breaks"))
    return errors + one_of(validation.get("reason"), REASONS, f"{path}.reason")


def _annotation_errors(policy: Object, annotation: Object, compiler: _Compiler, path: str) -> Errors:
    from kubewright import cel

    name, key = policy["metadata"].get("name") or "", annotation.get("key") or ""
    if name:
        errors = qualified_name(f"{name}/{key}", f"{path}.key")
    else:
        errors = [fe.invalid(f"{path}.key", key, "requires metadata.name be non-empty")]
    given = annotation.get("valueExpression") or ""
    text, where = given.strip(), f"{path}.valueExpression"
    if not text:
        errors.append(fe.required(where, "valueExpression is not specified"))
    elif len(text.encode()) > 5 * 1024:
        errors.append(fe.required(where, "must not exceed 5120 bytes in length"))
    else:
        errors += compiler.errors(text, where, cel.STRING, cel.NULL, shown=given)
    return errors


def _validating_status_errors(new: Object, old: Object) -> Errors:
    from kubewright.api.jsonpath import JSONPath, JSONPathError

    status = new.get("status") or {}
    errors: Errors = []
    for position, warning in enumerate(field(status, "typeChecking.expressionWarnings", ())):
        path = f"status.typeChecking.expressionWarnings[{position}]"
        if not warning.get("warning"):
            errors.append(fe.required(f"{path}.warning", ""))
        reference = (warning.get("fieldRef") or "").strip()
        if not reference:
            errors.append(fe.required(f"{path}.fieldRef", ""))
            continue
        try:
            JSONPath(f"{{{reference}}}")
        except JSONPathError as error:
            errors.append(fe.invalid(f"{path}.fieldRef", reference, f"invalid JSONPath: {error}"))
    return errors + condition_list_errors(status.get("conditions") or (), "status.conditions")


# Mutating


def _mutating_errors(policy: Object, old: Object | None = None) -> Errors:
    spec = policy.get("spec") or {}
    compiler = _Compiler(spec, mutating=True)
    errors = _common_errors(spec, old)
    errors += _mutating_operation_errors(spec.get("matchConstraints"), "spec.matchConstraints")
    errors += _condition_errors(spec, old) + _variable_errors(spec, compiler)
    mutations = spec.get("mutations") or []
    if not mutations:
        errors.append(fe.required("spec.mutations", "mutations must contain at least one item"))
    for position, mutation in enumerate(mutations):
        errors += _mutation_errors(mutation, compiler, f"spec.mutations[{position}]")
    policy_name, where = spec.get("reinvocationPolicy") or "", "spec.reinvocationPolicy"
    if not policy_name:
        errors.append(fe.required(where, ""))
    else:
        errors += one_of(policy_name, REINVOCATION_POLICIES, where)
    return errors


def _mutating_operation_errors(matcher: Object | None, path: str) -> Errors:
    return [
        error
        for rule in (matcher or {}).get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        for error in one_of(operation, MUTATING_OPERATIONS, f"{path}.resourceRules.operations")
    ]


def _mutation_errors(mutation: Object, compiler: _Compiler, path: str) -> Errors:
    from kubewright import cel

    kind = mutation.get("patchType") or ""
    if not kind:
        return [fe.required(f"{path}.patchType", "")]
    if kind not in PATCH_TYPES:
        return [fe.not_supported(f"{path}.patchType", kind, PATCH_TYPES)]
    own, other = (
        ("jsonPatch", "applyConfiguration") if kind == "JSONPatch" else ("applyConfiguration", "jsonPatch")
    )
    errors: Errors = []
    patch = mutation.get(own)
    if patch is None:
        errors.append(fe.required(f"{path}.{own}", f"must be specified when patchType is {kind}"))
    else:
        where, text = f"{path}.{own}.expression", (patch.get("expression") or "").strip()
        if not text:
            errors.append(fe.required(where, ""))
        else:
            result = cel.list_type(cel.JSON_PATCH) if kind == "JSONPatch" else cel.OBJECT
            errors += compiler.errors(text, where, result)
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {kind}"
        errors.append(fe.invalid(f"{path}.{other}", f"{{{other}}}", text))
    return errors


# Bindings


def _binding_errors(binding: Object) -> Errors:
    spec = binding.get("spec") or {}
    name = spec.get("policyName") or ""
    errors = dns_subdomain(name, "spec.policyName") if name else [fe.required("spec.policyName", "")]
    errors += _param_reference_errors(spec.get("paramRef"))
    return errors + match_resources_errors(spec.get("matchResources"), "spec.matchResources")


def _param_reference_errors(reference: Object | None) -> Errors:
    if reference is None:
        return []
    path, name, selector = "spec.paramRef", reference.get("name") or "", reference.get("selector")
    errors: Errors = []
    exclusive = "name and selector are mutually exclusive"
    if name:
        errors += named(check_path_segment, name, f"{path}.name")
        if selector is not None:
            errors.append(fe.forbidden(f"{path}.name", exclusive))
    if selector is not None:
        errors += selector_errors(selector, f"{path}.selector")
        if name:
            errors.append(fe.forbidden(f"{path}.selector", exclusive))
    if not name and selector is None:
        errors.append(fe.required(path, "one of name or selector must be specified"))
    action, where = reference.get("parameterNotFoundAction"), f"{path}.parameterNotFoundAction"
    if not action:
        errors.append(fe.required(where, ""))
    elif action not in ("Deny", "Allow"):
        errors.append(fe.not_supported(where, action, ("Deny", "Allow")))
    return errors


def _validating_binding_errors(binding: Object) -> Errors:
    errors = _binding_errors(binding)
    actions, path = field(binding, "spec.validationActions", []), "spec.validationActions"
    seen: set[str] = set()
    for position, action in enumerate(actions):
        errors += one_of(action, ACTIONS, f"{path}[{position}]")
        if action in seen:
            errors.append(fe.duplicate(f"{path}[{position}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the"
            " API response and headers serves no purpose)"
        )
        errors.append(fe.invalid(path, actions, text))
    if not actions:
        errors.append(fe.required(path, "at least one validation action is required"))
    return errors


def _mutating_binding_errors(binding: Object) -> Errors:
    matcher = field(binding, "spec.matchResources")
    return _binding_errors(binding) + _mutating_operation_errors(matcher, "spec.matchResources")


def _param_kind_text(policy: Object) -> str:
    kind = field(policy, "spec.paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_reference_text(binding: Object) -> str:
    reference = field(binding, "spec.paramRef", {})
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    selector = reference.get("selector")
    return UNSET if selector is None else _selector_text(selector)


def _selector_text(selector: Object) -> str:
    """A selector as Go prints the struct."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


_BINDING_COLUMNS = (
    column("PolicyName", shown("spec.policyName"), description="The policy that is put to work."),
    column("ParamRef", _param_reference_text, description="Its parameters."),
    AGE,
)

POLICY_KINDS = {
    "validatingadmissionpolicies": Kind(
        default=_default_policy,
        validate=_validating_errors,
        validate_update=_validating_errors,
        validate_status=_validating_status_errors,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        status_keeps_metadata=True,
        columns=(
            column(
                "Validations",
                counted("spec.validations"),
                type="integer",
                description="How many rules there are.",
            ),
            column("ParamKind", _param_kind_text, description="The kind of its parameters."),
            AGE,
        ),
        any_finalizer=True,
    ),
    "validatingadmissionpolicybindings": Kind(
        default=_default_binding,
        validate=_validating_binding_errors,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        columns=_BINDING_COLUMNS,
        any_finalizer=True,
    ),
    "mutatingadmissionpolicies": Kind(
        default=_default_policy,
        validate=_mutating_errors,
        validate_update=_mutating_errors,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        columns=(
            column(
                "Mutations",
                counted("spec.mutations"),
                type="integer",
                description="How many changes there are.",
            ),
            column("ParamKind", _param_kind_text, description="The kind of its parameters."),
            AGE,
        ),
        any_finalizer=True,
    ),
    "mutatingadmissionpolicybindings": Kind(
        default=_default_binding,
        validate=_mutating_binding_errors,
        generation_fields=("spec",),
        allow_unconditional_update=False,
        columns=_BINDING_COLUMNS,
        any_finalizer=True,
    ),
}
