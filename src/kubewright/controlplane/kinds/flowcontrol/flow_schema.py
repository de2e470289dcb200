"""FlowSchema.

Objects are stored and validated; this server does not queue requests by them.
"""

from __future__ import annotations

from kubewright.apiserver.resources.objects import Object
from kubewright.controlplane.kinds.defaults import Defaults, IfEmpty
from kubewright.controlplane.kinds.kind import Kind
from kubewright.controlplane.kinds.printing import AGE, NONE, column, field, shown
from kubewright.controlplane.kinds.validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    Entry,
    Enum,
    Errors,
    ExclusiveWildcard,
    Forbidden,
    Maximum,
    Minimum,
    Required,
    Rules,
    Switch,
    Table,
    Unique,
    UpdateRules,
    When,
)
from kubewright.controlplane.kinds.validation.formats import dns_label
from kubewright.schema import field_errors as fe

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
METHODS = ("ByNamespace", "ByUser")
_SUBJECT_FIELDS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}

_ALL_RESOURCES = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
]
_ALL_PATHS = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


def _match_all(*groups: str) -> list[Object]:
    subjects = [{"kind": "Group", "group": {"name": name}} for name in groups]
    return [{"subjects": subjects, "resourceRules": _ALL_RESOURCES, "nonResourceRules": _ALL_PATHS}]


MANDATORY_SCHEMAS: dict[str, Object] = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": _match_all("system:masters"),
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": 10_000,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": _match_all("system:unauthenticated", "system:authenticated"),
    },
}
"""Schemas that always exist, with their only valid spec."""


def _exempt_precedence(obj: Object, path: str) -> Errors:
    if field(obj, "spec.matchingPrecedence") != 1 or obj["metadata"].get("name") == "exempt":
        return []
    text = "only the schema named 'exempt' may have matchingPrecedence 1"
    return [fe.invalid("spec.matchingPrecedence", 1, text)]


def _method_errors(method: Object, path: str) -> Errors:
    if method.get("type") in METHODS:
        return []
    return [fe.not_supported(f"{path}.type", {"Type": method.get("type") or ""}, METHODS)]


def _rule_kind_errors(rule: Object, path: str) -> Errors:
    if rule.get("resourceRules") or rule.get("nonResourceRules"):
        return []
    return [fe.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")]


def _subject(kind: str, **fields: Entry) -> Table:
    own = _SUBJECT_FIELDS[kind]
    required = Required(f"{own} is required when subject kind is '{kind}'", pointer=True)
    others = {
        name: Forbidden(f"{name} is forbidden when subject kind is not '{other}'")
        for other, name in _SUBJECT_FIELDS.items()
        if other != kind
    }
    return {own: [required, {"name": Required(), **fields}], **others}


_SUBJECT: Table = {
    "kind": Enum("Group", "ServiceAccount", "User", absent=""),
    "": Switch(
        "kind",
        {
            "Group": _subject("Group"),
            "User": _subject("User"),
            "ServiceAccount": _subject(
                "ServiceAccount",
                name=[Required(), When(lambda name: name != "*", DNS_SUBDOMAIN)],
                namespace=[Required("must specify namespace for service account"), DNS_LABEL],
            ),
        },
    ),
}


def _verb_errors(verbs: list[str], path: str) -> Errors:
    return [] if "*" in verbs or set(verbs) <= set(VERBS) else [fe.not_supported(path, verbs, VERBS)]


def _namespace_errors(namespace: str, path: str) -> Errors:
    prefix = "each member of this list must be '*' or a DNS-1123 label; "
    return [
        fe.invalid(path, namespace, prefix + error.message.split(": ", 2)[2])
        for error in dns_label(namespace, path)
    ]


def _url_errors(url: str, path: str) -> Errors:
    error = _url_error(url)
    return [fe.invalid(path, url, error)] if error else []


def _url_error(url: str) -> str:
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


def _no_wildcard(values: list[str]) -> bool:
    return "*" not in values


_RULE_VERBS: Entry = [
    Required("verbs must contain at least one value"),
    ExclusiveWildcard("verbs"),
    _verb_errors,
]
_RESOURCE_RULE: Table = {
    "verbs": _RULE_VERBS,
    "apiGroups": [
        Required("resource rules must supply at least one api group"),
        ExclusiveWildcard("api groups"),
    ],
    "resources": [
        Required("resource rules must supply at least one resource"),
        ExclusiveWildcard("resources"),
    ],
    "": When(
        lambda rule: rule.get("namespaces") or not rule.get("clusterScope"),
        {
            "namespaces": [
                Required("resource rules that are not cluster scoped must supply at least one namespace"),
                ExclusiveWildcard("namespaces"),
                When(_no_wildcard, {"[*]": _namespace_errors}),
            ]
        },
    ),
}
_URL_RULE: Table = {
    "verbs": _RULE_VERBS,
    "nonResourceURLs": [
        Required("nonResourceURLs must contain at least one value"),
        ExclusiveWildcard("non-resource URLs"),
        When(_no_wildcard, {"[*]": _url_errors}),
    ],
}


def _mandatory_spec(obj: Object, path: str) -> Errors:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name")
    if spec == MANDATORY_SCHEMAS.get(name, spec):
        return []
    return [fe.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")]


CONDITION_RULES = Rules({"status.conditions[*]": [Unique("type"), {"type": Required()}]})
RULES = Rules(
    {
        "spec.matchingPrecedence": [
            Minimum(1, "must be a positive value", absent=0),
            Maximum(10_000, "must not be greater than 10000"),
        ],
        "": _exempt_precedence,
        "spec": {
            "distinguisherMethod": _method_errors,
            "priorityLevelConfiguration.name": [Required("must reference a priority level"), DNS_SUBDOMAIN],
            "rules[*]": {
                "subjects": Required("subjects must contain at least one value"),
                "subjects[*]": _SUBJECT,
                "": _rule_kind_errors,
                "resourceRules[*]": _RESOURCE_RULE,
                "nonResourceRules[*]": _URL_RULE,
            },
        },
    }
)


def _dangling(obj: Object) -> str:
    for condition in field(obj, "status.conditions", ()):
        if condition.get("type") == "Dangling":
            return str(condition.get("status", ""))
    return "?"


def _precedence(obj: Object) -> tuple[int, str]:
    """Sort by the order in which requests are matched."""
    return field(obj, "spec.matchingPrecedence", 0), obj["metadata"]["name"]


KINDS = {
    "flowschemas": Kind(
        default=Defaults({"spec.matchingPrecedence": IfEmpty(1000)}),
        validate=Rules({"": [RULES, _mandatory_spec, CONDITION_RULES]}),
        validate_status=UpdateRules(CONDITION_RULES),
        generation_fields=("spec",),
        status_keeps_metadata=True,
        row_order=_precedence,
        columns=(
            column(
                "PriorityLevel", shown("spec.priorityLevelConfiguration.name"), description="Priority level."
            ),
            column(
                "MatchingPrecedence",
                shown("spec.matchingPrecedence", 0),
                description="Order of matching.",
            ),
            column(
                "DistinguisherMethod",
                shown("spec.distinguisherMethod.type", NONE),
                description="How requests are divided into flows.",
            ),
            AGE,
            column("MissingPL", _dangling, description="Whether the priority level does not exist."),
        ),
    ),
}
