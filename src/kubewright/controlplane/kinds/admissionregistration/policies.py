"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

All CEL expressions of a policy are compiled when it is written, in the order in which they are evaluated,
because variables are visible to later expressions only. An error is reported at the field of the expression.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from kubewright.api.values.names import check_dns_1035_label, check_dns_subdomain
from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.defaults import Defaults
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, UNSET, column, counted, field
from kubewright.controlplane.kinds.validation import (
    Check,
    Enum,
    Errors,
    MaxItems,
    Required,
    Rules,
    Table,
    Unique,
    UpdateRules,
)
from kubewright.controlplane.kinds.validation.formats import CONDITIONS, qualified_name
from kubewright.schema import field_errors as fe

from .matching import (
    FAILURE_POLICY,
    MATCH_CONDITIONS,
    MATCH_RESOURCES,
    REINVOCATION_POLICY,
    environment,
    expression_errors,
    match_defaults,
    reserve_static_names,
)

if TYPE_CHECKING:
    from kubewright import cel

_MUTATING_OPERATIONS = Enum("*", "CONNECT", "CREATE", "UPDATE")
_PATCH_TYPES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
        "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip


class _Context:
    """The context of the rules: compiles the expressions of one policy, in the order of evaluation."""

    def __init__(self, policy: Object, old: Object | None, *, mutating: bool) -> None:
        spec, before = policy.get("spec") or {}, (old or {}).get("spec") or {}
        self.name: str = policy["metadata"].get("name") or ""
        self.params = spec.get("paramKind") is not None
        self.mutating = mutating
        self.variables: dict[str, cel.Type] | None = {} if mutating or spec.get("variables") else None
        self.same_conditions = old is not None and all(
            spec.get(name) == before.get(name) for name in ("paramKind", "matchConditions")
        )

    def errors(
        self, text: str, path: str, *expected: cel.Type, authorizer: bool = True, value: str | None = None
    ) -> Errors:
        """Compile an expression whose result has one of the types `expected`."""
        env = environment(
            params=self.params, authorizer=authorizer, variables=self.variables, mutating=self.mutating
        )
        return expression_errors(env, text, path, *expected, value=value)

    def declare(self, name: str, text: str, path: str) -> Errors:
        """Compile a variable and declare it for the following expressions.

        Variables cannot create objects; only mutations can.
        """
        from kubewright import cel

        env = environment(params=self.params, authorizer=True, variables=self.variables)
        errors = expression_errors(env, text, path)
        if self.variables is not None:
            self.variables[name] = env.check(text).type if not errors else cel.DYN
        return errors


def _api_version_errors(api_version: str, path: str) -> Errors:
    group, _, version = api_version.rpartition("/")
    if api_version.count("/") > 1:
        return [fe.invalid(path, api_version, f"unexpected GroupVersion string: {api_version}")]
    errors: Errors = []
    messages = check_dns_subdomain(group) if group else []
    if messages:
        errors.append(fe.invalid(path, group, ",".join(messages)))
    if not version:
        errors.append(fe.invalid(path, api_version, "version must be specified"))
    elif messages := check_dns_1035_label(version):
        errors.append(fe.invalid(path, version, ",".join(messages)))
    return errors


def _kind_errors(kind: str, path: str) -> Errors:
    messages = check_dns_1035_label(kind.lower())
    if not messages:
        return []
    text = f"may have mixed case, but should otherwise match: {','.join(messages)}"
    return [fe.invalid(path, kind, text)]


def _condition_errors(conditions: list[Object], path: str, context: _Context) -> Errors:
    if context.same_conditions:
        return []
    return MATCH_CONDITIONS(conditions, path, context=context.params)


def _variable_errors(variable: Object, path: str, context: _Context) -> Errors:
    name, text = variable.get("name") or "", variable.get("expression") or ""
    errors: Errors = []
    if not name.strip():
        errors.append(fe.required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        errors.append(fe.invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not text.strip():
        return [*errors, fe.required(f"{path}.expression", "expression is not specified")]
    return errors + context.declare(name, text, f"{path}.expression")


_MATCH: Table = {
    "failurePolicy": FAILURE_POLICY,
    "paramKind?.apiVersion": [Required(), _api_version_errors],
    "paramKind?.kind": [Required(), _kind_errors],
    "matchConstraints": [Required(pointer=True), MATCH_RESOURCES, {"resourceRules": Required()}],
}
_EXPRESSIONS: Table = {
    "matchConditions": Check(_condition_errors, context=True),
    "variables[*]": Check(_variable_errors, context=True),
}


# Validating


def _missing_validations(spec: Object, path: str) -> Errors:
    names = ("validations", "auditAnnotations")
    if any(spec.get(name) for name in names):
        return []
    text = "validations or auditAnnotations must contain at least one item"
    return [fe.required(f"{path}.{name}", text) for name in names]


def _expression_errors(text: str, path: str, context: _Context) -> Errors:
    from kubewright import cel

    if not text.strip():
        return [fe.required(path, "expression is not specified")]
    return context.errors(text, path, cel.BOOL)


def _message_expression_errors(text: str, path: str, context: _Context) -> Errors:
    from kubewright import cel

    if not text:
        return []
    if not text.strip():
        return [fe.invalid(path, text, "must be non-empty if specified")]
    return context.errors(text, path, cel.STRING, authorizer=False)


def _message_errors(message: str, path: str) -> Errors:
    if message and not message.strip():
        return [fe.invalid(path, message, "must be non-empty if specified")]
    if "\n" in message.strip() or "\r" in message.strip():
        return [fe.invalid(path, message, "must not contain line breaks")]
    return []


def _annotation_key_errors(key: str, path: str, context: _Context) -> Errors:
    if not context.name:
        return [fe.invalid(path, key, "requires metadata.name be non-empty")]
    return qualified_name(f"{context.name}/{key}", path)


def _value_expression_errors(value: str, path: str, context: _Context) -> Errors:
    from kubewright import cel

    text = value.strip()
    if not text:
        return [fe.required(path, "valueExpression is not specified")]
    if len(text.encode()) > 5 * 1024:
        return [fe.required(path, "must not exceed 5120 bytes in length")]
    return context.errors(text, path, cel.STRING, cel.NULL, value=value)


VALIDATING_RULES = Rules(
    {
        "spec": [
            _MATCH,
            _EXPRESSIONS,
            Check(_missing_validations, absent={}),
            {
                "validations[*]": {
                    "expression": Check(_expression_errors, absent="", context=True),
                    "messageExpression": Check(_message_expression_errors, context=True),
                    "message": _message_errors,
                    "reason": Enum("Forbidden", "Invalid", "RequestEntityTooLarge"),
                },
                "auditAnnotations": MaxItems(20, "must not have more than 20 auditAnnotations"),
                "auditAnnotations[*]": [
                    {
                        "key": Check(_annotation_key_errors, absent="", context=True),
                        "valueExpression": Check(_value_expression_errors, absent="", context=True),
                    },
                    Unique("key"),
                ],
            },
        ]
    }
)


def _field_ref_errors(value: str, path: str) -> Errors:
    from kubewright.api.selectors.jsonpath import JSONPath
    from kubewright.api.selectors.jsonpath_steps import JSONPathError

    reference = value.strip()
    if not reference:
        return [fe.required(path, "")]
    try:
        JSONPath(f"{{{reference}}}")
    except JSONPathError as error:
        return [fe.invalid(path, reference, f"invalid JSONPath: {error}")]
    return []


STATUS_RULES = Rules(
    {
        "status.typeChecking.expressionWarnings[*].warning": Required(),
        "status.typeChecking.expressionWarnings[*].fieldRef": Check(_field_ref_errors, absent=""),
        "status.conditions": CONDITIONS,
    }
)


# Mutating


def mutating_operation_errors(matcher: Object, path: str) -> Errors:
    """Reject operations that a mutating policy cannot match. The path of the errors has no indexes."""
    return [
        error
        for rule in matcher.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _MUTATING_OPERATIONS.values
        for error in _MUTATING_OPERATIONS.errors(operation, f"{path}.resourceRules.operations")
    ]


def _mutation_errors(mutation: Object, path: str, context: _Context) -> Errors:
    from kubewright import cel

    type_, type_path = mutation.get("patchType") or "", f"{path}.patchType"
    if not type_:
        return [fe.required(type_path, "")]
    if type_ not in _PATCH_TYPES:
        return [fe.not_supported(type_path, type_, _PATCH_TYPES)]
    name = _PATCH_TYPES[type_]
    other = "applyConfiguration" if name == "jsonPatch" else "jsonPatch"
    patch = mutation.get(name)
    errors: Errors = []
    if patch is None:
        errors.append(fe.required(f"{path}.{name}", f"must be specified when patchType is {type_}"))
    elif text := (patch.get("expression") or "").strip():
        result = cel.list_type(cel.JSON_PATCH) if name == "jsonPatch" else cel.OBJECT
        errors += context.errors(text, f"{path}.{name}.expression", result)
    else:
        errors.append(fe.required(f"{path}.{name}.expression", ""))
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {type_}"
        errors.append(fe.invalid(f"{path}.{other}", f"{{{other}}}", text))
    return errors


MUTATING_RULES = Rules(
    {
        "spec": [
            _MATCH,
            {"matchConstraints": mutating_operation_errors},
            _EXPRESSIONS,
            {
                "mutations": Required("mutations must contain at least one item"),
                "mutations[*]": Check(_mutation_errors, context=True),
                "reinvocationPolicy": [Required(), REINVOCATION_POLICY],
            },
        ]
    }
)


def _param_kind_text(obj: Object) -> str:
    kind = field(obj, "spec.paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _validate(obj: Object, old: Object | None = None, *, rules: Rules) -> Errors:
    return rules(obj, context=_Context(obj, old, mutating=rules is MUTATING_RULES))


def _kind(rules: Rules, list_name: str, **fields: Any) -> Kind:
    validate = partial(_validate, rules=rules)
    count = counted(f"spec.{list_name}")
    return reserve_static_names(
        Kind(
            default=Defaults(
                {
                    "spec.failurePolicy": "Fail",
                    **match_defaults("spec.matchConstraints", "resourceRules", "excludeResourceRules"),
                }
            ),
            validate=validate,
            validate_update=validate,
            generation_fields=("spec",),
            allow_unconditional_update=False,
            any_finalizer=True,
            columns=(
                column(list_name.title(), count, type="integer", description=f"Number of {list_name}."),
                column("ParamKind", _param_kind_text, description="Kind of the parameters."),
                AGE,
            ),
            **fields,
        )
    )


KINDS = {
    "validatingadmissionpolicies": _kind(
        VALIDATING_RULES,
        "validations",
        validate_status=UpdateRules(STATUS_RULES),
        status_keeps_metadata=True,
    ),
    "mutatingadmissionpolicies": _kind(
        MUTATING_RULES,
        "mutations",
        former={"-1.36": {"hashed_group_version": "admissionregistration.k8s.io/v1beta1"}},
    ),
}
