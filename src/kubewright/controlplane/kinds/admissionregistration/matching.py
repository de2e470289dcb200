"""Parts that webhook configurations and admission policies share: match rules, match conditions, CEL.

Expressions are compiled in the environment that they will run in; the error of the compiler becomes the
validation error.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from kubewright.api.values.names import check_path_segment, check_qualified_name
from kubewright.cel.compatibility import new_expressions, texts_of
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.validation import (
    Check,
    Enum,
    Errors,
    ExclusiveWildcard,
    Format,
    MaxItems,
    Required,
    Rules,
    Table,
    Unique,
)
from kubewright.schema import field_errors as fe

if TYPE_CHECKING:
    from kubewright import cel

FAILURE_POLICY = Enum("Fail", "Ignore")
MATCH_POLICY = Enum("Equivalent", "Exact")
REINVOCATION_POLICY = Enum("IfNeeded", "Never")


def match_defaults(prefix: str, *rules: str) -> dict[str, Any]:
    """Return the defaults of an object with selectors and rules, for a table of `Defaults`."""
    return {
        f"{prefix}.matchPolicy": "Equivalent",
        f"{prefix}.namespaceSelector": {},
        f"{prefix}.objectSelector": {},
        **{f"{prefix}.{name}[*].scope": "*" for name in rules},
    }


def _resource_errors(resources: list[str], path: str) -> Errors:
    errors: Errors = [] if resources else [fe.required(path, "")]
    with_all_subresources: set[str] = set()
    subresources_of_all: set[str] = set()
    has_plain_resource = False
    for index, text in enumerate(resources):
        where = f"{path}[{index}]"
        if not text:
            errors.append(fe.required(where, ""))
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            has_plain_resource = text != "*"
            continue
        if resource in with_all_subresources:
            errors.append(fe.invalid(where, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in subresources_of_all:
            detail = f"if '*/{subresource}' is present, must not specify {text}"
            errors.append(fe.invalid(where, text, detail))
        if subresource == "*":
            with_all_subresources.add(resource)
        if resource == "*":
            subresources_of_all.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        errors.append(fe.invalid(path, resources, detail))
    if "*" in resources and has_plain_resource:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(fe.invalid(path, resources, detail))
    return errors


RULE: Table = {
    "operations": [Required(), ExclusiveWildcard("operations")],
    "operations[*]": Enum("*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
    "apiGroups": [Required(), ExclusiveWildcard("API groups")],
    "apiVersions": [Required(), ExclusiveWildcard("API versions")],
    "apiVersions[*]": Required(),
    "resources": Check(_resource_errors, absent=[]),
    "scope": Enum("*", "Cluster", "Namespaced"),
}
"""Operations on resources."""
_NAMED_RULE: Table = {"resourceNames[*]": [Format(check_path_segment, absent=""), Unique()], **RULE}
MATCH_RESOURCES: Table = {
    "matchPolicy": MATCH_POLICY,
    "namespaceSelector": selector_errors,
    "objectSelector": selector_errors,
    "resourceRules[*]": _NAMED_RULE,
    "excludeResourceRules[*]": _NAMED_RULE,
}
"""What a policy or a binding matches."""


# Expressions


def environment(**settings: Any) -> cel.Env:
    """Return the environment of an expression. The CEL package is loaded with the first one."""
    from kubewright.controlplane.admission.policies.expressions import environment as create

    return create(**settings)


@cache
def _condition_environment(params: bool) -> cel.Env:
    return environment(params=params)


def expression_errors(
    env: cel.Env, text: str, path: str, *expected: cel.Type, value: str | None = None
) -> Errors:
    """Compile an expression whose result has one of the types `expected`. `value` is shown in errors."""
    from kubewright import cel

    value = text if value is None else value
    try:
        checked = env.check(text)
        checked.compile()
    except cel.CelCompileError as error:
        return [fe.invalid(path, value, f"compilation failed: {error}")]
    except cel.CelError as error:
        return [fe.internal(path, f"program instantiation failed: {error}")]
    if not expected or any(checked.type.same(type_) for type_ in expected):
        return []
    names = [_type_name(type_) for type_ in expected]
    types = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
    return [fe.invalid(path, value, f"must evaluate to {types} but got {_type_name(checked.type)}")]


def _type_name(type_: cel.Type) -> str:
    """Return the name of a result type, in which `null` is `null_type`."""
    return re.sub(r"\bnull\b", "null_type", str(type_))


def _condition_errors(expression: str, path: str, params: bool) -> Errors:
    from kubewright import cel

    text = expression.strip()
    if not text:
        return [fe.required(path, "")]
    return expression_errors(_condition_environment(params), text, path, cel.BOOL)


MATCH_CONDITIONS = Rules(
    {
        "": MaxItems(64),
        "[*]": [
            {
                "expression": Check(_condition_errors, absent="", context=True),
                "name": [Required(), Format(check_qualified_name)],
            },
            Unique("name", ignore_empty=True),
        ],
    }
)
"""A list of match conditions. The context is whether the expressions have `params`."""

STATIC_SUFFIX = ".static.k8s.io"
"""Suffix of configurations that kube-apiserver reads from files."""


_STATIC_NAME = (
    f'names ending with "{STATIC_SUFFIX}" are reserved for static manifest-based configurations and cannot '
    "be managed via the API"
)


def _has_static_name(obj: dict[str, Any]) -> bool:
    return (obj["metadata"].get("name") or "").endswith(STATIC_SUFFIX)


def _static_name_warnings(obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
    return [f"metadata.name: {_STATIC_NAME}"] if _has_static_name(obj) else []


def reserve_static_names(kind: Kind) -> Kind:
    """Reject new objects with names that are reserved for configurations in files.

    1.36 returned a warning, because ManifestBasedAdmissionControlConfig was disabled; earlier versions none.
    """
    validate = kind.validate
    assert validate is not None

    def check(obj: dict[str, Any]) -> Errors:
        with new_expressions():
            return validate(obj)

    def validate_new(obj: dict[str, Any]) -> Errors:
        if _has_static_name(obj):
            return [fe.invalid("metadata.name", obj["metadata"]["name"], _STATIC_NAME), *check(obj)]
        return check(obj)

    validate_update = kind.validate_update or (lambda new, old: validate(new))

    def validate_changed(new: dict[str, Any], old: dict[str, Any]) -> Errors:
        with new_expressions(texts_of(old)):
            return validate_update(new, old)

    return replace(
        kind,
        validate=validate_new,
        validate_update=validate_changed,
        warnings=_static_name_warnings,
        former={"-1.36": {**kind.former.get("-1.36", {}), "validate": check}, "-1.35": {"warnings": None}},
    )
