"""Rules that webhook configurations and admission policies share: what they match, and their expressions.

Expressions are compiled for the environment that they will run in; what the compiler says becomes the error.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kubewright.api.names import check_path_segment
from kubewright.apiserver.objects import Object
from kubewright.controlplane.kinds.core.podspec.scheduling import selector_errors
from kubewright.controlplane.kinds.validation.formats import Errors, named, qualified_name
from kubewright.schema import field_errors as fe

if TYPE_CHECKING:
    from kubewright import cel

FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")
STATIC_SUFFIX = ".static.k8s.io"


def one_of(value: Any, allowed: tuple[str, ...], path: str) -> Errors:
    """One of several words, where the field is there at all."""
    return [] if value is None or value in allowed else [fe.not_supported(path, value, allowed)]


def default_rules(rules: Collection[Object] | None) -> None:
    """Rules are about every scope unless they say otherwise."""
    for rule in rules or ():
        if rule.get("scope") is None:
            rule["scope"] = "*"


def default_selectors(matcher: Object) -> None:
    """Selectors that are not given select everything."""
    if matcher.get("matchPolicy") is None:
        matcher["matchPolicy"] = "Equivalent"
    for name in ("namespaceSelector", "objectSelector"):
        if matcher.get(name) is None:
            matcher[name] = {}


def default_match_resources(matcher: Object | None) -> None:
    """Defaults of what a policy or binding matches."""
    if matcher is None:
        return
    default_selectors(matcher)
    default_rules(matcher.get("resourceRules"))
    default_rules(matcher.get("excludeResourceRules"))


def _only_wildcard(values: list[str], noun: str, path: str) -> Errors:
    if not values:
        return [fe.required(path, "")]
    if len(values) > 1 and "*" in values:
        return [fe.invalid(path, values, f"if '*' is present, must not specify other {noun}")]
    return []


def rule_errors(rule: Object, path: str) -> Errors:
    """Operations on resources."""
    operations = rule.get("operations") or []
    errors = _only_wildcard(operations, "operations", f"{path}.operations")
    for position, operation in enumerate(operations):
        errors += one_of(operation, OPERATIONS, f"{path}.operations[{position}]")
    errors += _only_wildcard(rule.get("apiGroups") or [], "API groups", f"{path}.apiGroups")
    versions = rule.get("apiVersions") or []
    errors += _only_wildcard(versions, "API versions", f"{path}.apiVersions")
    for position, version in enumerate(versions):
        if not version:
            errors.append(fe.required(f"{path}.apiVersions[{position}]", ""))
    errors += _resource_errors(rule.get("resources") or [], f"{path}.resources")
    return errors + one_of(rule.get("scope"), SCOPES, f"{path}.scope")


def _resource_errors(resources: list[str], path: str) -> Errors:
    errors: Errors = [] if resources else [fe.required(path, "")]
    all_parts_of: set[str] = set()
    part_of_all: set[str] = set()
    without_part = False
    for position, text in enumerate(resources):
        where = f"{path}[{position}]"
        if not text:
            errors.append(fe.required(where, ""))
            continue
        resource, slash, part = text.partition("/")
        if not slash:
            without_part = text != "*"
            continue
        if resource in all_parts_of:
            errors.append(fe.invalid(where, text, f"if '{resource}/*' is present, must not specify {text}"))
        if part in part_of_all:
            errors.append(fe.invalid(where, text, f"if '*/{part}' is present, must not specify {text}"))
        if part == "*":
            all_parts_of.add(resource)
        if resource == "*":
            part_of_all.add(part)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        errors.append(fe.invalid(path, resources, text))
    if "*" in resources and without_part:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(fe.invalid(path, resources, text))
    return errors


def match_resources_errors(matcher: Object | None, path: str) -> Errors:
    """What a policy or a binding matches."""
    if matcher is None:
        return []
    errors = one_of(matcher.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    for name in ("namespaceSelector", "objectSelector"):
        errors += selector_errors(matcher.get(name), f"{path}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(matcher.get(name) or ()):
            errors += _named_rule_errors(rule, f"{path}.{name}[{position}]")
    return errors


def _named_rule_errors(rule: Object, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, name in enumerate(rule.get("resourceNames") or ()):
        where = f"{path}.resourceNames[{position}]"
        errors += named(check_path_segment, name, where)
        if name in seen:
            errors.append(fe.duplicate(where, name))
        seen.add(name)
    return errors + rule_errors(rule, path)


def match_condition_errors(conditions: list[Object], params: bool, path: str) -> Errors:
    """Conditions that decide whether anything else is looked at."""
    errors: Errors = [fe.too_many(path, len(conditions), 64)] if len(conditions) > 64 else []
    seen: set[str] = set()
    env: cel.Env | None = None
    for position, condition in enumerate(conditions):
        where, name = f"{path}[{position}]", condition.get("name") or ""
        text = (condition.get("expression") or "").strip()
        if not text:
            errors.append(fe.required(f"{where}.expression", ""))
        else:
            env = env or environment(params=params)
            errors += expression_errors(env, text, f"{where}.expression", bool_type())
        if not name:
            errors.append(fe.required(f"{where}.name", ""))
            continue
        errors += qualified_name(name, f"{where}.name")
        if name in seen:
            errors.append(fe.duplicate(f"{where}.name", name))
        seen.add(name)
    return errors


def environment(**settings: Any) -> cel.Env:
    """What an expression sees; loaded when the first one is checked."""
    from kubewright.controlplane.admission.expressions import environment as make

    return make(**settings)


def bool_type() -> cel.Type:
    """The type of conditions."""
    from kubewright import cel

    return cel.BOOL


def expression_errors(
    env: cel.Env, text: str, path: str, *expected: cel.Type, shown: str | None = None
) -> Errors:
    """What the compiler has against an expression whose result is one of some types."""
    from kubewright import cel

    value = text if shown is None else shown
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
    wanted = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
    return [fe.invalid(path, value, f"must evaluate to {wanted} but got {_type_name(checked.type)}")]


def _type_name(type_: cel.Type) -> str:
    """A type as results are told: the checker's `null` is a type of its own there."""
    return re.sub(r"\bnull\b", "null_type", str(type_))
