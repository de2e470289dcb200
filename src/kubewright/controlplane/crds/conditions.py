"""Status of a definition: conditions and accepted names.

All functions change a definition in place; `review` sets everything that does not depend on instances:

    names that other definitions of the group have   -> status.acceptedNames, condition NamesAccepted
    names accepted for the first time              -> condition Established, which stays
    a protected group                              -> condition KubernetesAPIApprovalPolicyConformant
    an old schema that is not structural           -> condition NonStructuralSchema

The first definition gets a name. A definition whose names conflict is reviewed again when another definition
of its group is changed or deleted.

Names of definitions by group; a lookup costs the same with any number of definitions.
"""

from __future__ import annotations

import ssl
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final

from kubewright.api.field_errors import aggregate
from kubewright.api.values.go_format import quote
from kubewright.api.values.times import format_time, now

Definition = dict[str, Any]

NAMES: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_APPROVAL: Final = "api-approved.kubernetes.io"
_APPROVAL_LINK: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def find(crd: Definition, kind: str) -> dict[str, Any] | None:
    """Return the condition of a type, or `None`."""
    conditions: list[dict[str, Any]] = (crd.get("status") or {}).get("conditions") or []
    for condition in conditions:
        if condition.get("type") == kind:
            return condition
    return None


def is_true(crd: Definition, kind: str) -> bool:
    """Whether a condition has status True."""
    condition = find(crd, kind)
    return condition is not None and condition.get("status") == "True"


def put(crd: Definition, kind: str, status: str, reason: str, message: str) -> None:
    """Set a condition; lastTransitionTime changes with its status."""
    moment = format_time(now())
    condition = find(crd, kind)
    if condition is None:
        condition = {"type": kind}
        holder = crd.setdefault("status", {})
        holder["conditions"] = [*(holder.get("conditions") or ()), condition]
    if condition.get("status") != status or not condition.get("lastTransitionTime"):
        condition["lastTransitionTime"] = moment
    condition.update(status=status, reason=reason, message=message)


def is_terminating(crd: Definition) -> bool:
    """Whether a definition is being deleted."""
    return "deletionTimestamp" in crd["metadata"] or is_true(crd, "Terminating")


def is_served(crd: Definition) -> bool:
    """Whether instances can be read and written."""
    return is_true(crd, "Established") or is_true(crd, "NamesAccepted")


def review(crd: Definition, taken: TakenNames) -> None:
    """Update accepted names and conditions. `taken` are the names of the other definitions of the group."""
    _accept_names(crd, taken)
    _judge_approval(crd)
    _judge_structure(crd)


def _accept_names(crd: Definition, taken: TakenNames) -> None:
    wanted = crd["spec"].get("names") or {}
    status = crd.setdefault("status", {})
    accepted = status.get("acceptedNames") or {}
    if find(crd, "NamesAccepted") is None or _shown(wanted) != _shown(accepted):
        granted, conflict = _grant(wanted, accepted, taken)
        status["acceptedNames"] = granted
        if conflict is None:
            put(crd, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
        else:
            put(crd, "NamesAccepted", "False", *conflict)
    if is_true(crd, "Established"):
        return
    if not is_true(crd, "NamesAccepted"):
        if find(crd, "Established") is None:
            put(crd, "Established", "False", "NotAccepted", "not all names are accepted")
    elif _has_bad_bundle(crd):
        text = "The conversion webhook CABundle is invalid"
        put(crd, "Established", "False", "InvalidCABundle", text)
    else:
        put(crd, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted")


def _shown(names: dict[str, Any]) -> list[Any]:
    return [names.get(name) or None for name in NAMES]


def _grant(
    wanted: dict[str, Any], accepted: dict[str, Any], taken: TakenNames
) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """Return the names that are free, and reason and message of the last conflict."""
    granted = {name: accepted[name] for name in NAMES if accepted.get(name)}
    conflict: tuple[str, str] | None = None
    for name, category, reason in (
        ("plural", "resource", "PluralConflict"),
        ("singular", "resource", "SingularConflict"),
        ("shortNames", "resource", "ShortNamesConflict"),
        ("kind", "kind", "KindConflict"),
        ("listKind", "kind", "ListKindConflict"),
    ):
        values: Any = wanted.get(name) or ("" if name != "shortNames" else [])
        listed: list[str] = values if name == "shortNames" else [values]
        ours = accepted.get(name) or ()
        held = set(ours) if name == "shortNames" else {ours or ""}
        problems = [
            f"{quote(value)} is already in use"
            for value in listed
            if value not in held and taken.has(category, value)
        ]
        if problems:
            conflict = reason, aggregate(problems)
        elif values:
            granted[name] = values
        else:
            granted.pop(name, None)
    if wanted.get("categories"):
        granted["categories"] = wanted["categories"]
    else:
        granted.pop("categories", None)
    granted.setdefault("plural", "")
    granted.setdefault("kind", "")
    return granted, conflict


def _has_bad_bundle(crd: Definition) -> bool:
    webhook = (crd["spec"].get("conversion") or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    try:
        text = b64decode(bundle).decode("ascii", "replace").strip()
        if text:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ValueError, ssl.SSLError):
        return True
    return False


def _judge_approval(crd: Definition) -> None:
    group = crd["spec"].get("group") or ""
    if not any(group == domain or group.endswith(f".{domain}") for domain in ("k8s.io", "kubernetes.io")):
        return
    value = (crd["metadata"].get("annotations") or {}).get(_APPROVAL) or ""
    needed = f'protected groups must have approval annotation "{_APPROVAL}"'
    kind = "KubernetesAPIApprovalPolicyConformant"
    if not value:
        put(crd, kind, "False", "MissingAnnotation", f"{needed}, {_APPROVAL_LINK}")
    elif value.startswith("unapproved"):
        put(crd, kind, "False", "UnapprovedAnnotation", f"not approved: {quote(value)}")
    elif "://" in value:
        put(crd, kind, "True", "ApprovedAnnotation", f"approved in {value}")
    else:
        text = f'{needed} with either a URL or a reason starting with "unapproved", {_APPROVAL_LINK}'
        put(crd, kind, "False", "InvalidAnnotation", text)


def _judge_structure(crd: Definition) -> None:
    """Only definitions from before schemas had to be structural violate this; new ones are rejected."""
    if not crd["spec"].get("preserveUnknownFields"):
        if find(crd, "NonStructuralSchema") is not None:
            kept = [each for each in crd["status"]["conditions"] if each.get("type") != "NonStructuralSchema"]
            crd["status"]["conditions"] = kept
        return
    from kubewright.schema import field_errors as fe
    from kubewright.schema.crd.structural import structural_errors, unsupported

    errors = [fe.invalid("spec.preserveUnknownFields", True, "must be false")]
    for position, version in enumerate(crd["spec"].get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema and not unsupported(schema):
            errors += structural_errors(schema, f"spec.versions[{position}].schema.openAPIV3Schema")
    put(crd, "NonStructuralSchema", "True", "Violations", aggregate(errors))


class NameIndex:
    """The accepted names of all definitions, and the definitions that wait for a name."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str, str], set[str]] = {}
        """Definitions by group, category (`resource` or `kind`) and name."""
        self._held: dict[str, list[tuple[str, str, str]]] = {}
        self._waiting: dict[str, dict[str, None]] = {}

    def put(self, crd: Definition) -> None:
        """Index the current state of a definition."""
        name, group = crd["metadata"]["name"], crd["spec"]["group"]
        self.discard(name)
        keys = self._held[name] = list(_keys(crd, group))
        for key in keys:
            self._owners.setdefault(key, set()).add(name)
        if not is_true(crd, "NamesAccepted"):
            self._waiting.setdefault(group, {})[name] = None

    def discard(self, name: str) -> None:
        """Remove a definition."""
        for key in self._held.pop(name, ()):
            owners = self._owners[key]
            owners.discard(name)
            if not owners:
                del self._owners[key]
        group = name.partition(".")[2]
        waiting = self._waiting.get(group)
        if waiting is not None:
            waiting.pop(name, None)
            if not waiting:
                del self._waiting[group]

    def waiting(self, group: str) -> list[str]:
        """Return the definitions of a group whose names are not accepted."""
        return list(self._waiting.get(group) or ())

    def taken_by_others(self, crd: Definition) -> TakenNames:
        """Return the names that a definition cannot have."""
        return TakenNames(self, crd["spec"]["group"], crd["metadata"]["name"])

    def has_other_owner(self, key: tuple[str, str, str], name: str) -> bool:
        """Return whether a definition other than `name` has a name."""
        owners = self._owners.get(key)
        return owners is not None and (len(owners) > 1 or name not in owners)


class TakenNames:
    """The names of one group that other definitions have."""

    def __init__(self, index: NameIndex, group: str, definition: str) -> None:
        self._index = index
        self._group = group
        self._definition = definition

    def has(self, category: str, value: str) -> bool:
        """Return whether a `resource` name or a `kind` is taken."""
        return self._index.has_other_owner((self._group, category, value), self._definition)


def _keys(crd: Definition, group: str) -> Iterator[tuple[str, str, str]]:
    names = (crd.get("status") or {}).get("acceptedNames") or {}
    resources = (names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ()))
    for value in dict.fromkeys(resources):
        yield group, "resource", value
    for value in dict.fromkeys((names.get("kind") or "", names.get("listKind") or "")):
        yield group, "kind", value
