"""Type checker: assigns every node its type and every call its candidate overloads.

All problems are collected, with the messages of Kubernetes. An invalid node gets the error type, which is
assignable to everything, so that a problem is reported once. After the walk, unbound type parameters become
dyn, and invalid literals (`duration('x')`, bad patterns) are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kubewright.cel.checking.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    STRING,
    Kind,
    Type,
    find_message,
    is_optional,
    list_type,
    map_type,
    optional_type,
)
from kubewright.cel.checking.unify import Substitution, most_general
from kubewright.cel.errors import MAX_REPORTED, CelError, Issue
from kubewright.cel.functions import FunctionTable, Overload
from kubewright.cel.library.strings import clause_problem, format_clauses
from kubewright.cel.syntax.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    children,
)
from kubewright.cel.syntax.lexer import Source

_LOGIC: Final = frozenset({"_&&_", "_||_"})


class Checker:
    """One walk over one expression."""

    def __init__(
        self,
        source: Source,
        variables: Mapping[str, Type],
        functions: FunctionTable,
        type_names: Mapping[str, Type],
        messages: Mapping[str, Type],
        literal_checks: Mapping[str, Callable[[object], object]],
    ) -> None:
        self.issues: list[Issue] = []
        self.total = 0
        self.references: set[str] = set()
        self._source = source
        self._variables = variables
        self._functions = functions
        self._type_names = type_names
        self._messages = messages
        self._literal_checks = literal_checks
        self._scopes: list[dict[str, Type]] = []
        self._types = Substitution()
        self._checked: dict[int, Expr] = {}

    def check(self, root: Expr) -> None:
        """Annotate the tree and collect problems in `issues`."""
        self._visit(root)
        for expr in self._checked.values():
            expr.type = self._types.resolve(expr.type, free_as_dyn=True)
        if not self.issues:
            self._check_literals()
            self._check_aggregates(root)

    def report(self, pos: int, message: str) -> None:
        """Record a problem."""
        self.total += 1
        if self.total <= MAX_REPORTED:
            self.issues.append(self._source.issue(pos, message))

    def _check_literals(self) -> None:
        for expr in list(self._checked.values()):
            if isinstance(expr, Call) and expr.function == "format":
                self._check_format(expr)
            if not isinstance(expr, Call) or not expr.args or not isinstance(expr.args[0], Literal):
                continue
            check = self._literal_checks.get(expr.function)
            value = expr.args[0].value
            if check is None or type(value) is not str:
                continue
            try:
                check(value)
            except Exception:
                self.report(expr.args[0].pos, f"invalid {expr.function} argument")

    def _check_format(self, expr: Call) -> None:
        """Check a constant template against the types of its arguments."""
        if not isinstance(expr.target, Literal) or not isinstance(expr.args[0], ListExpr):
            return
        arguments = expr.args[0].elements
        try:
            clauses = list(format_clauses(expr.target.value))
            for index, clause in enumerate(clauses):
                if index >= len(arguments):
                    raise CelError(f"index {index} out of range")
                problem = clause_problem(clause, arguments[index].type)
                if problem:
                    self.report(arguments[index].pos, f"error during formatting: {problem}")
                    return
        except CelError as error:
            self.report(expr.pos, str(error))
            return
        if len(clauses) < len(arguments):
            self.report(
                expr.pos,
                "too many arguments supplied to string.format"
                f" (expected {len(clauses)}, got {len(arguments)})",
            )

    def _check_aggregates(self, root: Expr) -> None:
        """Literal lists and maps must be homogeneous, except in the arguments of `format`."""
        seen: set[int] = set()
        stack = [root]
        while stack:
            expr = stack.pop()
            if id(expr) in seen or (isinstance(expr, Call) and expr.function == "format"):
                continue
            seen.add(id(expr))
            if isinstance(expr, ListExpr):
                self._check_same(
                    expr.elements, [index in expr.optionals for index in range(len(expr.elements))]
                )
            elif isinstance(expr, MapExpr):
                self._check_same([entry.key for entry in expr.entries], [False] * len(expr.entries))
                values = [entry.value for entry in expr.entries]
                self._check_same(values, [entry.optional for entry in expr.entries])
            stack.extend(children(expr))

    def _check_same(self, items: list[Expr], optional: list[bool]) -> None:
        types = [
            item.type.params[0] if unwrap and is_optional(item.type) else item.type
            for item, unwrap in zip(items, optional, strict=True)
        ]
        for item, found in zip(items, types, strict=True):
            if not types[0].same(found):
                self.report(item.pos, f"expected type '{types[0]}' but found '{found}'")
                return

    def _visit(self, expr: Expr) -> Type:
        if id(expr) in self._checked:
            return expr.type
        self._checked[id(expr)] = expr
        if isinstance(expr, Literal):
            expr.type = expr.declared
        elif isinstance(expr, Ident):
            expr.type = self._ident(expr)
        elif isinstance(expr, Select):
            expr.type = self._select(expr)
        elif isinstance(expr, Call):
            expr.type = self._call(expr)
        elif isinstance(expr, ListExpr):
            expr.type = self._list(expr)
        elif isinstance(expr, MapExpr):
            expr.type = self._map(expr)
        elif isinstance(expr, StructExpr):
            expr.type = self._struct(expr)
        elif isinstance(expr, Comprehension):
            expr.type = self._comprehension(expr)
        return expr.type

    def _undeclared(self, pos: int, name: str) -> Type:
        self.report(pos, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _ident(self, expr: Ident) -> Type:
        if not expr.name.startswith("."):
            local = self._local(expr.name)
            if local is not None:
                return local
        found = self._global(expr)
        return found if found is not None else self._undeclared(expr.pos, expr.name)

    def _global(self, expr: Ident) -> Type | None:
        name = expr.name.removeprefix(".")
        variable = self._variables.get(name)
        if variable is not None:
            expr.name = name
            self.references.add(name)
            return variable
        named = self._type_names.get(name)
        if named is not None:
            expr.type_name = named
            return Type(Kind.TYPE, "type", (named,))
        return None

    def _select(self, expr: Select) -> Type:
        qualified = _qualified_name(expr)
        if qualified is not None and self._local(qualified.partition(".")[0]) is None:
            ident = Ident(expr.pos, qualified)
            found = self._global(ident)
            if found is not None:
                ident.type = found
                self._checked[id(ident)] = ident
                expr.qualified = ident
                return found
        result = self._field(expr.pos, expr.operand, expr.field, optional=False)
        return BOOL if expr.test_only else self._types.resolve(result)

    def _field(self, pos: int, operand: Expr, field: str, *, optional: bool) -> Type:
        operand_type = self._types.resolve(self._visit(operand))
        wrapped = is_optional(operand_type)
        target = operand_type.params[0] if wrapped else operand_type
        result = ERROR
        if target.kind is Kind.MAP:
            result = target.params[1]
        elif target.kind is Kind.OBJECT:
            found = target.field(field)
            if found is None:
                self.report(pos, f"undefined field '{field}'")
            else:
                result = found.type
        elif target.kind is Kind.PARAM:
            self._types.assign(DYN, target)
            result = DYN
        else:
            if target.kind > Kind.DYN:
                self.report(pos, f"type '{target}' does not support field selection")
            result = DYN
        return optional_type(result) if wrapped or optional else result

    def _call(self, expr: Call) -> Type:
        if expr.function == "_?._":
            return self._optional_select(expr)
        for arg in expr.args:
            self._visit(arg)
        if expr.target is None:
            expr.function = expr.function.removeprefix(".")
            found = self._functions.find(expr.function)
            if found is None:
                return self._undeclared(expr.pos, expr.function)
            return self._resolve(expr, found)
        prefix = _qualified_name(expr.target)
        if prefix is not None:
            name = f"{prefix.removeprefix('.')}.{expr.function}"
            found = self._functions.find(name)
            if found is not None:
                expr.function = name
                expr.target = None
                return self._resolve(expr, found)
        self._visit(expr.target)
        found = self._functions.find(expr.function)
        if found is None:
            return self._undeclared(expr.pos, expr.function)
        return self._resolve(expr, found)

    def _optional_select(self, expr: Call) -> Type:
        operand, field = expr.args
        assert isinstance(field, Literal)
        self._checked[id(field)] = field
        field.type = STRING
        result = self._field(expr.pos, operand, field.value, optional=True)
        found = self._functions.find("_?._")
        assert found is not None
        expr.overloads = found
        return self._types.resolve(result)

    def _resolve(self, expr: Call, overloads: Sequence[Overload]) -> Type:
        operands = expr.args if expr.target is None else [expr.target, *expr.args]
        actual = [operand.type for operand in operands]
        if expr.function in _LOGIC:
            return self._logic(expr, overloads)
        result: Type | None = None
        chosen: list[Overload] = []
        for candidate in overloads:
            if candidate.member != (expr.target is not None) or len(candidate.args) != len(actual):
                continue
            wanted: Sequence[Type] = candidate.args
            returns = candidate.result
            if candidate.generic:
                *wanted, returns = self._types.instantiate(candidate.generic, [*wanted, returns])
            if not self._types.assign_all(actual, wanted):
                continue
            chosen.append(candidate)
            returns = self._types.resolve(returns)
            if result is None:
                result = returns
            elif result.kind is not Kind.DYN and not returns.same(result):
                result = DYN
        if result is None:
            shown = [str(self._types.resolve(item, free_as_dyn=True)) for item in actual]
            signature = f"({', '.join(shown)})"
            if expr.target is not None:
                signature = f"{shown[0]}.({', '.join(shown[1:])})"
            self.report(
                expr.pos, f"found no matching overload for '{expr.function}' applied to '{signature}'"
            )
            return ERROR
        expr.overloads = chosen
        return result

    def _logic(self, expr: Call, overloads: Sequence[Overload]) -> Type:
        fine = True
        for arg in expr.args:
            if not self._types.assign(arg.type, BOOL):
                self._mismatch(arg.pos, BOOL, arg.type)
                fine = False
        expr.overloads = list(overloads)
        return BOOL if fine else ERROR

    def _mismatch(self, pos: int, expected: Type, actual: Type) -> None:
        expected, actual = self._types.resolve(expected), self._types.resolve(actual)
        self.report(pos, f"expected type '{expected}' but found '{actual}'")

    def _joined(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self._types.assign(previous, current):
            return most_general(previous, current)
        return DYN

    def _unwrapped(self, value: Expr, optional: bool) -> Type:
        found = self._visit(value)
        if not optional:
            return found
        resolved = self._types.resolve(found)
        if is_optional(resolved):
            return resolved.params[0]
        if resolved.kind is not Kind.DYN:
            self._mismatch(value.pos, optional_type(resolved), resolved)
        return resolved

    def _list(self, expr: ListExpr) -> Type:
        joined: Type | None = None
        for index, element in enumerate(expr.elements):
            joined = self._joined(joined, self._unwrapped(element, index in expr.optionals))
        return list_type(joined if joined is not None else self._types.fresh())

    def _map(self, expr: MapExpr) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in expr.entries:
            keys = self._joined(keys, self._visit(entry.key))
            values = self._joined(values, self._unwrapped(entry.value, entry.optional))
        if keys is None or values is None:
            return map_type(self._types.fresh(), self._types.fresh())
        return map_type(keys, values)

    def _struct(self, expr: StructExpr) -> Type:
        name = expr.name.removeprefix(".")
        message = find_message(self._messages, name)
        if message is None:
            for entry in expr.entries:
                self._visit(entry.value)
            known = self._type_names.get(name)
            if known is not None:
                self.report(expr.pos, f"'{name}' is not a message type")
                return ERROR
            return self._undeclared(expr.pos, expr.name)
        expr.name = name
        for entry in expr.entries:
            found = message.field(entry.key)
            if found is None:
                self.report(entry.pos, f"undefined field '{entry.key}'")
            value = self._unwrapped(entry.value, entry.optional)
            if found is not None and not self._types.assign(found.type, value):
                self.report(
                    entry.pos,
                    f"expected type of field '{entry.key}' is '{found.type}' "
                    f"but provided type is '{self._types.resolve(value)}'",
                )
        return message

    def _comprehension(self, expr: Comprehension) -> Type:
        ranged = self._types.resolve(self._visit(expr.iter_range))
        accu = self._visit(expr.accu_init)
        self._scopes.append({expr.accu_var: accu})
        self._scopes.append(self._iteration(expr, ranged))
        self._expect(expr.condition, BOOL)
        self._expect(expr.step, accu)
        self._scopes.pop()
        result = self._visit(expr.result)
        self._scopes.pop()
        return self._types.resolve(result)

    def _iteration(self, expr: Comprehension, ranged: Type) -> dict[str, Type]:
        two = bool(expr.iter_var2)
        if ranged.kind is Kind.LIST:
            item = ranged.params[0]
            return {expr.iter_var: INT, expr.iter_var2: item} if two else {expr.iter_var: item}
        if ranged.kind is Kind.MAP:
            names = {expr.iter_var: ranged.params[0]}
            if two:
                names[expr.iter_var2] = ranged.params[1]
            return names
        item = DYN
        if ranged.kind is Kind.PARAM:
            self._types.assign(DYN, ranged)
        elif ranged.kind > Kind.DYN:
            self.report(
                expr.iter_range.pos,
                f"expression of type '{ranged}' cannot be range of a comprehension"
                " (must be list, map, or dynamic)",
            )
            item = ERROR
        return {expr.iter_var: item, expr.iter_var2: item} if two else {expr.iter_var: item}

    def _expect(self, expr: Expr, wanted: Type) -> None:
        found = self._visit(expr)
        if not self._types.assign(wanted, found):
            self._mismatch(expr.pos, wanted, found)


def _qualified_name(expr: Expr) -> str | None:
    parts: list[str] = []
    while isinstance(expr, Select):
        if expr.test_only:
            return None
        parts.append(expr.field)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return None
    parts.append(expr.name)
    return ".".join(reversed(parts))
