"""Flow schemas and priority levels: `flowcontrol.apiserver.k8s.io`.

The objects are kept and checked; requests of this server are not queued by them.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from kubewright.apiserver.resource import Object
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column, field, shown
from kubewright.controlplane.kinds.validation.formats import Errors, dns_label, dns_subdomain
from kubewright.schema import field_errors as fe

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
METHODS = ("ByNamespace", "ByUser")
_LARGEST_PRECEDENCE = 10_000
_MOST_QUEUES = 10_000_000
_HASH_BITS = 60
_ZERO_SHARES = "flowcontrol.k8s.io/preserve-zero-concurrency-shares"

_EVERYTHING = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
]
_EVERY_PATH = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


def _group(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


MANDATORY_SCHEMAS: dict[str, Object] = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": [
            {
                "subjects": [_group("system:masters")],
                "resourceRules": _EVERYTHING,
                "nonResourceRules": _EVERY_PATH,
            }
        ],
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": 10_000,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [_group("system:unauthenticated"), _group("system:authenticated")],
                "resourceRules": _EVERYTHING,
                "nonResourceRules": _EVERY_PATH,
            }
        ],
    },
}
"""Schemas that are always there, with the only spec that they may have."""

CATCH_ALL_LEVEL: Object = {
    "type": "Limited",
    "limited": {
        "nominalConcurrencyShares": 5,
        "limitResponse": {"type": "Reject"},
        "lendablePercent": 0,
    },
}


# Flow schemas


def _default_schema(schema: Object) -> None:
    spec = schema.get("spec")
    if isinstance(spec, dict) and not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _schema_errors(schema: Object) -> Errors:
    spec, name = schema.get("spec") or {}, schema["metadata"].get("name") or ""
    errors: Errors = []
    precedence, path = spec.get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    if precedence <= 0:
        errors.append(fe.invalid(path, precedence, "must be a positive value"))
    if precedence > _LARGEST_PRECEDENCE:
        errors.append(fe.invalid(path, precedence, f"must not be greater than {_LARGEST_PRECEDENCE}"))
    if precedence == 1 and name != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        errors.append(fe.invalid(path, precedence, text))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in METHODS:
        shape = {"Type": method.get("type") or ""}
        errors.append(fe.not_supported("spec.distinguisherMethod.type", shape, METHODS))
    level = field(spec, "priorityLevelConfiguration.name", "")
    where = "spec.priorityLevelConfiguration.name"
    errors += (
        dns_subdomain(level, where) if level else [fe.required(where, "must reference a priority level")]
    )
    for position, rule in enumerate(spec.get("rules") or ()):
        errors += _schema_rule_errors(rule, f"spec.rules[{position}]")
    fixed = MANDATORY_SCHEMAS.get(name)
    if fixed is not None and spec != fixed:
        errors.append(fe.invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    return errors + _condition_errors(schema)


def _schema_rule_errors(rule: Object, path: str) -> Errors:
    errors: Errors = []
    if not rule.get("subjects"):
        errors.append(fe.required(f"{path}.subjects", "subjects must contain at least one value"))
    for position, subject in enumerate(rule.get("subjects") or ()):
        errors += _subject_errors(subject, f"{path}.subjects[{position}]")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(fe.required(path, text))
    for position, one in enumerate(rule.get("resourceRules") or ()):
        errors += _resource_rule_errors(one, f"{path}.resourceRules[{position}]")
    for position, one in enumerate(rule.get("nonResourceRules") or ()):
        errors += _path_rule_errors(one, f"{path}.nonResourceRules[{position}]")
    return errors


def _subject_errors(subject: Object, path: str) -> Errors:
    kind = subject.get("kind") or ""
    if kind not in SUBJECTS:
        return [fe.not_supported(f"{path}.kind", kind, SUBJECTS)]
    own = SUBJECTS[kind]
    errors: Errors = []
    details = subject.get(own)
    if details is None:
        errors.append(fe.required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'"))
    else:
        errors += _named_subject_errors(details, kind, f"{path}.{own}")
    for other in ("ServiceAccount", "User", "Group"):
        name = SUBJECTS[other]
        if other != kind and subject.get(name) is not None:
            text = f"{name} is forbidden when subject kind is not '{other}'"
            errors.append(fe.forbidden(f"{path}.{name}", text))
    return errors


def _named_subject_errors(details: Object, kind: str, path: str) -> Errors:
    name = details.get("name") or ""
    errors: Errors = [] if name else [fe.required(f"{path}.name", "")]
    if kind != "ServiceAccount":
        return errors
    if name and name != "*":
        errors += dns_subdomain(name, f"{path}.name")
    namespace = details.get("namespace") or ""
    if namespace:
        errors += dns_label(namespace, f"{path}.namespace")
    else:
        errors.append(fe.required(f"{path}.namespace", "must specify namespace for service account"))
    return errors


def _wildcard_errors(values: Collection[str], path: str, noun: str, missing: str) -> Errors:
    if not values:
        return [fe.required(path, missing)]
    if "*" in values and len(values) > 1:
        return [fe.invalid(path, list(values), f"if '*' is present, must not specify other {noun}")]
    return []


def _verb_errors(rule: Object, path: str) -> Errors:
    verbs = rule.get("verbs") or []
    errors = _wildcard_errors(verbs, f"{path}.verbs", "verbs", "verbs must contain at least one value")
    if not errors and "*" not in verbs and not set(verbs) <= set(VERBS):
        errors.append(fe.not_supported(f"{path}.verbs", verbs, VERBS))
    return errors


def _resource_rule_errors(rule: Object, path: str) -> Errors:
    errors = _verb_errors(rule, path)
    for name, noun, one in (("apiGroups", "api groups", "api group"), ("resources", "resources", "resource")):
        missing = f"resource rules must supply at least one {one}"
        errors += _wildcard_errors(rule.get(name) or (), f"{path}.{name}", noun, missing)
    namespaces, where = rule.get("namespaces") or [], f"{path}.namespaces"
    if not namespaces and rule.get("clusterScope"):
        return errors
    missing = "resource rules that are not cluster scoped must supply at least one namespace"
    errors += _wildcard_errors(namespaces, where, "namespaces", missing)
    if "*" not in namespaces:
        for position, namespace in enumerate(namespaces):
            intro = "each member of this list must be '*' or a DNS-1123 label; "
            errors += [
                fe.invalid(f"{where}[{position}]", namespace, intro + error.message.split(": ", 2)[2])
                for error in dns_label(namespace, where)
            ]
    return errors


def _path_rule_errors(rule: Object, path: str) -> Errors:
    errors = _verb_errors(rule, path)
    urls, where = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    missing = "nonResourceURLs must contain at least one value"
    errors += _wildcard_errors(urls, where, "non-resource URLs", missing)
    if "*" not in urls:
        for position, url in enumerate(urls):
            fault = _path_fault(url)
            if fault:
                errors.append(fe.invalid(f"{where}[{position}]", url, fault))
    return errors


def _path_fault(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def _condition_errors(obj: Object) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, condition in enumerate(field(obj, "status.conditions", ())):
        path, name = f"status.conditions[{position}].type", condition.get("type") or ""
        if name in seen:
            errors.append(fe.duplicate(path, name))
        seen.add(name)
        if not name:
            errors.append(fe.required(path, ""))
    return errors


# Priority levels


def _default_level(level: Object) -> None:
    spec = level.get("spec")
    if not isinstance(spec, dict):
        return
    for kind, shares in (("limited", 30), ("exempt", 0)):
        settings = spec.get(kind)
        if settings is not None:
            if settings.get("nominalConcurrencyShares") is None:
                settings["nominalConcurrencyShares"] = shares
            if settings.get("lendablePercent") is None:
                settings["lendablePercent"] = 0
    queuing = field(spec, "limited.limitResponse.queuing")
    if queuing is not None:
        for name, number in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
            queuing[name] = queuing.get(name) or number


def _level_errors(level: Object) -> Errors:
    spec, name = level.get("spec") or {}, level["metadata"].get("name") or ""
    errors: Errors = []
    if _ZERO_SHARES in (level["metadata"].get("annotations") or {}):
        errors.append(fe.forbidden("metadata.annotations", f"annotation '{_ZERO_SHARES}' is forbidden"))
    errors += _level_spec_errors(spec, name)
    if name == "exempt" and any(
        spec.get(key) != value for key, value in (("type", "Exempt"), ("limited", None))
    ):
        text = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
        errors.append(fe.invalid("spec", spec, text))
    if name == "catch-all" and spec != CATCH_ALL_LEVEL:
        errors.append(fe.invalid("spec", spec, "spec of 'catch-all' must equal the fixed value"))
    return errors + _condition_errors(level)


def _level_spec_errors(spec: Object, name: str) -> Errors:
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    errors: Errors = []
    if (name == "exempt") != (kind == "Exempt"):
        text = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(fe.invalid("spec.type", kind, text))
    if kind == "Exempt":
        if limited is not None:
            errors.append(fe.forbidden("spec.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            errors += _share_errors(exempt, "spec.exempt")
    elif kind == "Limited":
        if exempt is not None:
            errors.append(fe.forbidden("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            errors.append(fe.required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _limited_errors(limited)
    elif not kind:
        errors.append(fe.required("spec.type", ""))
    else:
        errors.append(fe.not_supported("spec.type", kind, ("Exempt", "Limited")))
    return errors


def _share_errors(settings: Object, path: str) -> Errors:
    errors: Errors = []
    shares, lendable = settings.get("nominalConcurrencyShares") or 0, settings.get("lendablePercent") or 0
    if shares < 0:
        where = f"{path}.nominalConcurrencyShares"
        errors.append(fe.invalid(where, shares, "must be a non-negative integer"))
    if not 0 <= lendable <= 100:
        text = "must be between 0 and 100, inclusive"
        errors.append(fe.invalid(f"{path}.lendablePercent", lendable, text))
    return errors


def _limited_errors(limited: Object) -> Errors:
    path = "spec.limited"
    shared = _share_errors(limited, path)
    errors = [error for error in shared if "Shares" in error.field]
    response = limited.get("limitResponse") or {}
    where, kind, queuing = f"{path}.limitResponse", response.get("type") or "", response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            text = "must be nil if limited.limitResponse.type is not Limited"
            errors.append(fe.forbidden(f"{where}.queuing", text))
    elif kind == "Queue":
        if queuing is None:
            text = "must not be empty if limited.limitResponse.type is Limited"
            errors.append(fe.required(f"{where}.queuing", text))
        else:
            errors += _queue_errors(queuing, f"{where}.queuing")
    elif not kind:
        errors.append(fe.required(f"{where}.type", ""))
    else:
        errors.append(fe.not_supported(f"{where}.type", kind, ("Queue", "Reject")))
    errors += [error for error in shared if "Shares" not in error.field]
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        errors.append(fe.invalid(f"{path}.borrowingLimitPercent", borrowing, text))
    return errors


def _queue_errors(queuing: Object, path: str) -> Errors:
    errors: Errors = []
    length, queues, hand = (queuing.get(name) or 0 for name in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        errors.append(fe.invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(fe.invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MOST_QUEUES:
        errors.append(fe.invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}"))
    where = f"{path}.handSize"
    if hand <= 0:
        errors.append(fe.invalid(where, hand, "must be positive"))
    elif hand > queues:
        errors.append(fe.invalid(where, hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        text = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than "
            f"{_HASH_BITS}"
        )
        errors.append(fe.invalid(where, hand, text))
    return errors


def _dangling(schema: Object) -> str:
    for condition in field(schema, "status.conditions", ()):
        if condition.get("type") == "Dangling":
            return str(condition.get("status", ""))
    return "?"


def _precedence(schema: Object) -> tuple[int, str]:
    """Which schema is asked first about a request."""
    return (schema.get("spec") or {}).get("matchingPrecedence") or 0, schema["metadata"]["name"]


KINDS = {
    "flowschemas": Kind(
        default=_default_schema,
        validate=_schema_errors,
        validate_status=lambda new, old: _condition_errors(new),
        generation_fields=("spec",),
        status_keeps_metadata=True,
        row_order=_precedence,
        columns=(
            column(
                "PriorityLevel",
                shown("spec.priorityLevelConfiguration.name"),
                description="The level that its requests have.",
            ),
            column(
                "MatchingPrecedence",
                shown("spec.matchingPrecedence", 0),
                description="Lower ones are asked first.",
            ),
            column(
                "DistinguisherMethod",
                shown("spec.distinguisherMethod.type", NONE),
                description="How requests are put into flows.",
            ),
            AGE,
            column("MissingPL", _dangling, description="Whether the priority level does not exist."),
        ),
    ),
    "prioritylevelconfigurations": Kind(
        default=_default_level,
        validate=_level_errors,
        validate_status=lambda new, old: _condition_errors(new),
        generation_fields=("spec",),
        status_keeps_metadata=True,
        columns=(
            column("Type", shown("spec.type"), description="Whether requests of this level are limited."),
            column(
                "NominalConcurrencyShares",
                shown("spec.limited.nominalConcurrencyShares", NONE),
                description="Its share of all requests at a time.",
            ),
            *(
                column(
                    name, shown(f"spec.limited.limitResponse.queuing.{key}", NONE), description=description
                )
                for name, key, description in (
                    ("Queues", "queues", "How many queues there are."),
                    ("HandSize", "handSize", "How many queues a flow may use."),
                    ("QueueLengthLimit", "queueLengthLimit", "How many requests wait in a queue."),
                )
            ),
            AGE,
        ),
    ),
}
