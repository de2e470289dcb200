"""`PlanPolicy`: which changes are expected, and which must not happen.

    allow:
      - {kind: Deployment, verb: change, field: spec.template.spec.containers[*].image}
      - {kind: ConfigMap, namespace: shop-*}
    deny:
      - {kind: PersistentVolumeClaim, verb: [delete, recreate]}
      - {kind: Service, field: spec.selector}

A rule matches changes by kind (with or without the group), namespace, name, verb and field; `*` matches any
text, and what a rule does not name matches everything. A change is denied if a `deny` rule matches it, or one
of its fields. It is allowed if `allow` rules match it, and all of its fields if they name fields. Denied
changes make the plan fail; allowed ones do not count for the exit code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

import yaml

from kubewright.rehearse.snapshot import ObjectName

from .model import Plan, PlannedChange, Verb

_KEYS = ("kind", "namespace", "name", "verb", "field")


class PolicyError(Exception):
    """A policy file cannot be used; the message is one line with the file and the reason."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule; an empty field matches everything."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    verbs: tuple[str, ...] = ()
    field: str = ""

    def matches(self, change: PlannedChange) -> bool:
        """Whether the rule is about a change, regardless of fields."""
        name = change.name
        return (
            (not self.kind or any(fnmatchcase(each, self.kind) for each in (name.kind, name.full_kind)))
            and (not self.namespace or fnmatchcase(name.namespace, self.namespace))
            and (not self.name or fnmatchcase(name.name, self.name))
            and (not self.verbs or change.verb in self.verbs)
        )

    def matches_field(self, path: str) -> bool:
        """Whether the rule is about a field, or one above it."""
        wanted, actual = self.field.lstrip("."), path.lstrip(".")
        if not wanted:
            return True
        # Brackets are literal in paths; in patterns of fnmatch they are sets of characters.
        pattern = re.compile(re.escape(wanted).replace(r"\*", "[^.]*") + r"(?:[.\[].*)?")
        return pattern.fullmatch(actual) is not None


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """The rules of a file."""

    allow: tuple[PolicyRule, ...] = ()
    deny: tuple[PolicyRule, ...] = ()

    @classmethod
    def read(cls, path: Path) -> PlanPolicy:
        """Read a YAML file; raise `PolicyError` if it is not a policy."""
        try:
            found = yaml.load(path.read_bytes(), yaml.CSafeLoader)
        except OSError as error:
            raise PolicyError(f"cannot read {path}: {error.strerror}") from None
        except yaml.YAMLError as error:
            raise PolicyError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
        if not isinstance(found, dict) or not found or set(found) - {"allow", "deny"}:
            raise PolicyError(f"{path}: expected the keys allow and deny, each with a list of rules")
        return cls(*(tuple(_rules(path, name, found.get(name))) for name in ("allow", "deny")))

    def apply(self, plan: Plan) -> None:
        """Mark the changes of a plan; what the cluster does because of an allowed change is allowed."""
        allowed: set[ObjectName] = set()
        for change in sorted(plan.changes, key=lambda each: each.actor != "operator"):
            if self._denies(change):
                change.policy = "denied"
            elif self._allows(change) or (
                change.actor == "cluster" and not allowed.isdisjoint(change.owners)
            ):
                change.policy = "allowed"
                allowed.add(change.name)

    def _denies(self, change: PlannedChange) -> bool:
        return any(
            rule.matches(change)
            and (not rule.field or any(rule.matches_field(each.path) for each in change.fields))
            for rule in self.deny
        )

    def _allows(self, change: PlannedChange) -> bool:
        rules = [each for each in self.allow if each.matches(change)]
        if any(not each.field for each in rules):
            return True
        return bool(change.fields) and all(
            any(rule.matches_field(each.path) for rule in rules) for each in change.fields
        )


def _rules(path: Path, name: str, found: Any) -> list[PolicyRule]:
    if found is None:
        return []
    if not isinstance(found, list):
        raise PolicyError(f"{path}: {name} is not a list of rules")
    return [_rule(path, f"{name}[{index}]", each) for index, each in enumerate(found)]


def _rule(path: Path, where: str, found: Any) -> PolicyRule:
    if not isinstance(found, dict) or not found or set(found) - set(_KEYS):
        raise PolicyError(f"{path}: {where}: expected some of {', '.join(_KEYS)}")
    verbs = found.get("verb", ())
    verbs = (verbs,) if isinstance(verbs, str) else verbs
    known = get_args(Verb)
    if not isinstance(verbs, list | tuple) or any(each not in known for each in verbs):
        raise PolicyError(f"{path}: {where}: verb must be some of {', '.join(known)}")
    texts = {key: found.get(key, "") for key in ("kind", "namespace", "name", "field")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise PolicyError(f"{path}: {where}: {key} must be a string")
    return PolicyRule(**texts, verbs=tuple(verbs))
