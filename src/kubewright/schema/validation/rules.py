"""CEL rules of a schema (`x-kubernetes-validations`), compiled once and evaluated on every write.

Rules are compiled for the type of the node that declares them. A rule that uses `oldSelf` is a transition
rule: it is evaluated only if there is an old value, unless `optionalOldSelf` is set. Failures of other rules
on unchanged values are warnings.

All rules of one object share a cost budget; when it is exceeded, the object is rejected and no further rule
is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubewright import cel
from kubewright.api.field_errors import FieldError
from kubewright.cel.costs import limits
from kubewright.schema import field_errors as fe
from kubewright.schema.crd.field_paths import FieldPathError, resolve_field_path
from kubewright.schema.structural import Node

from .cel_types import cel_type
from .correlation import Correlated, keyed_items

_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_NO_TYPE: Final = "failed to convert to declType for CEL validation rules"
"""Problem of rules whose values CEL has no type for."""


@dataclass(slots=True)
class Rule:
    """One compiled rule. A rule that did not compile has a `problem` and no `program`."""

    text: str
    message: str
    reason: str
    field_path: str
    optional_old: bool
    program: cel.Program | None = None
    message_program: cel.Program | None = None
    problem: str = ""
    message_problem: str = ""
    uses_old: bool = False
    max_cost: int = 0
    message_max_cost: int = 0
    min_json: int = 0

    @property
    def shown(self) -> str:
        """The rule as errors print it."""
        return self.message.strip() or self.text.strip()


def compile_rules(node: Node, *, root: bool = False) -> list[Rule]:
    """Return the rules of one node, compiled once; `root` marks the root of a resource."""
    key = "cel-root-rules" if root else "cel-rules"
    found: list[Rule] | None = node.extra.get(key)
    if found is None:
        declared = node.raw.get("x-kubernetes-validations") or []
        self_type = cel_type(node, root=root or node.embedded_resource) if declared else None
        found = node.extra[key] = [_compile(rule, node, self_type) for rule in declared]
    return found


def _compile(declared: dict[str, Any], node: Node, self_type: cel.Type | None) -> Rule:
    rule = Rule(
        text=declared.get("rule") or "",
        message=declared.get("message") or "",
        reason=declared.get("reason") or "FieldValueInvalid",
        field_path="",
        optional_old=bool(declared.get("optionalOldSelf")),
    )
    if not rule.text.strip():
        return rule
    if self_type is None:
        rule.problem = _NO_TYPE
        return rule
    old_type = cel.optional_type(self_type) if rule.optional_old else self_type
    env = cel.Env({"self": self_type, "oldSelf": old_type})
    rule.min_json = self_type.min_json
    try:
        checked = env.check(rule.text)
    except cel.CelCompileError as error:
        rule.problem = f"compilation failed: {error}"
        return rule
    if checked.type.kind is not cel.Kind.BOOL:
        rule.problem = "cel expression must evaluate to a bool"
        return rule
    rule.uses_old = "oldSelf" in checked.references
    try:
        rule.program = checked.compile()
    except cel.CelError as error:
        rule.problem = f"program instantiation failed: {error}"
        return rule
    rule.max_cost = checked.cost.max
    _compile_message(rule, declared.get("messageExpression") or "", env)
    if declared.get("fieldPath"):
        try:
            rule.field_path = resolve_field_path(declared["fieldPath"], node)[0]
        except FieldPathError:
            rule.field_path = ""
    return rule


def _compile_message(rule: Rule, text: str, env: cel.Env) -> None:
    if not text:
        return
    try:
        checked = env.check(text)
    except cel.CelCompileError as error:
        rule.message_problem = f"messageExpression compilation failed: {error}"
        return
    if checked.type.kind is not cel.Kind.STRING:
        rule.message_problem = "messageExpression must evaluate to a string"
        return
    try:
        rule.message_program = checked.compile()
    except cel.CelError as error:
        rule.message_problem = f"messageExpression instantiation failed: {error}"
        return
    rule.message_max_cost = checked.cost.max


def _has_rules(node: Node) -> bool:
    return bool(node.raw.get("x-kubernetes-validations"))


def has_rules(node: Node) -> bool:
    """Return whether this node or a descendant has rules."""
    return _has_rules(node) or node.reaches("reaches-rules", _has_rules)


class _OutOfBudgetError(Exception):
    """The cost budget of the object is exceeded."""


class RuleRun:
    """One evaluation of all rules of an object, with its `errors` and `warnings`."""

    __slots__ = ("budget", "errors", "ratchet", "warnings")

    def __init__(self, *, ratchet: bool = True, limit: int = limits.RUNTIME_COST_BUDGET) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self.budget = cel.Budget(limit)
        self.ratchet = ratchet

    def validate(
        self, node: Node, value: Any, old: Any = None, path: str = fe.ROOT, *, root: bool = False
    ) -> RuleRun:
        """Evaluate all rules on a value; `old` is the previous value."""
        pair = Correlated(value, old, node) if old is not None and self.ratchet else None
        try:
            self._visit(node, value, old, path, root, pair, None)
        except _OutOfBudgetError:
            pass
        return self

    def _visit(
        self,
        node: Node,
        value: Any,
        old: Any,
        path: str,
        root: bool,
        pair: Correlated | None,
        nearest: Correlated | None,
    ) -> None:
        if value is None:
            return
        if _has_rules(node):
            self._run(compile_rules(node, root=root), node, value, old, path, pair or nearest)
        if not node.reaches("reaches-rules", _has_rules):
            return
        if type(value) is dict:
            before = old if type(old) is dict else {}
            additional = node.additional
            for name in sorted(value):
                declared = node.properties.get(name)
                child = declared or additional
                if (
                    child is None
                    or not has_rules(child)
                    or (declared is not None and cel_type(declared) is None)
                ):
                    continue
                where = fe.child(path, name) if declared is not None else fe.key(path, name)
                if root and name in ("apiVersion", "kind"):
                    self._visit(child, value[name], before.get(name), where, False, None, None)
                else:
                    below = pair.field(name) if pair is not None else None
                    self._visit(child, value[name], before.get(name), where, False, below, pair or nearest)
        elif type(value) is list:
            items = node.items
            if items is None or not has_rules(items):
                return
            if node.type != "array":
                # A stored array under a schema that has become another type, and has items nevertheless.
                if _has_rules(items):
                    for position, item in enumerate(value):
                        if item is not None:
                            self._report_missing_type(items, fe.index(path, position))
                return
            keyed = keyed_items(node, old)
            lookup = pair if pair is not None else Correlated(value, old, node)
            for position, item in enumerate(value):
                old_item = lookup.old_item(item) if keyed else None
                below = pair.item(position) if pair is not None else None
                self._visit(items, item, old_item, fe.index(path, position), False, below, pair or nearest)

    def _run(
        self, rules: list[Rule], node: Node, value: Any, old: Any, path: str, unchanged: Correlated | None
    ) -> None:
        if self.budget.remaining <= 0:
            self._stop(fe.invalid(path, node.type, _OUT_OF_BUDGET))
        if any(rule.problem is _NO_TYPE for rule in rules):
            self._report_missing_type(node, path)
            return
        for rule in rules:
            if rule.problem:
                self.errors.append(fe.invalid(path, node.type, f"rule compile error: {rule.problem}"))
                continue
            if rule.program is None or (rule.uses_old and old is None and not rule.optional_old):
                continue
            variables = {"self": value}
            if rule.uses_old:
                variables["oldSelf"] = _optional(old) if rule.optional_old else old
            try:
                passed = rule.program(variables, budget=self.budget)
            except cel.CostExceeded as error:
                if self.budget.remaining <= 0:
                    self._stop(fe.invalid(path, node.type, _OUT_OF_BUDGET))
                stopped = "no further validation rules will be run due to call cost exceeds limit for rule"
                self._stop(fe.invalid(path, node.type, f"'{error}': {stopped}: {rule.shown}"))
            except cel.CelError as error:
                self.errors.append(fe.invalid(path, node.type, _evaluation_detail(error, rule)))
                continue
            if passed is not True:
                self._fail(rule, node, value, variables, path, unchanged)

    def _report_missing_type(self, node: Node, path: str) -> None:
        self.errors.append(fe.invalid(path, node.type, f"rule compiler initialization error: {_NO_TYPE}"))

    def _stop(self, error: FieldError) -> None:
        self.errors.append(error)
        raise _OutOfBudgetError

    def _fail(
        self,
        rule: Rule,
        node: Node,
        value: Any,
        variables: dict[str, Any],
        path: str,
        unchanged: Correlated | None,
    ) -> None:
        where = fe.child(path, rule.field_path) if rule.field_path else path
        detail = ""
        if rule.message_program is not None:
            try:
                detail = self._message(rule, variables)
            except cel.CostExceeded:
                detail = (
                    "messageExpression evaluation failed due to running out of cost budget, "
                    "no further validation rules will be run"
                )
                self._add(rule, fe.invalid(where, node.type, detail), unchanged)
                raise _OutOfBudgetError from None
        detail = detail or rule.message.strip() or f"failed rule: {rule.text.strip()}"
        shown = fe.OMIT if node.type in ("object", "array") else value
        match rule.reason:
            case "FieldValueForbidden":
                error = fe.forbidden(where, detail)
            case "FieldValueRequired":
                error = fe.required(where, detail)
            case "FieldValueDuplicate":
                error = fe.duplicate(where, shown)
            case _:
                error = fe.invalid(where, shown, detail)
        self._add(rule, error, unchanged)

    def _add(self, rule: Rule, error: FieldError, unchanged: Correlated | None) -> None:
        if not rule.uses_old and unchanged is not None and unchanged.unchanged():
            self.warnings.append(str(error))
        else:
            self.errors.append(error)

    def _message(self, rule: Rule, variables: dict[str, Any]) -> str:
        """Return the result of a messageExpression, or an empty string if it fails or is unusable."""
        assert rule.message_program is not None
        try:
            text = rule.message_program(variables, budget=self.budget)
        except cel.CelError:
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return text if len(text.encode()) <= limits.MAX_MESSAGE_SIZE and "\n" not in text else ""


def _optional(old: Any) -> Any:
    return cel.NONE if old is None else cel.Optional(old)


def _evaluation_detail(error: cel.CelError, rule: Rule) -> str:
    text = str(error)
    if text.startswith("no such overload"):
        return (
            f"'{text}': call arguments did not match a supported operator, function or macro signature "
            f"for rule: {rule.shown}"
        )
    return f"{text} evaluating rule: {rule.shown}"
