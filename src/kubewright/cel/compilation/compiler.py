"""Compiler: a checked expression to Python closures.

Every node becomes a function of a frame (see `frame`), specialised by the checked types: a field of a known
object is one subscript, a comparison of integers one operator. `Code` pairs a function with the fixed part of
its cost. A parent adds the fixed costs of children that are always evaluated, so that a straight-line part of
an expression is charged once, where its evaluation is decided: the program, a branch of `&&`, `||` or `?:`, a
loop.

Variables are raw JSON. `raw` compiles a node that may return raw JSON (a variable, a field, an element);
`code` converts the result if the type requires it, so that selections never convert whole objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kubewright.cel.checking.types import Kind, Type, find_message, is_optional
from kubewright.cel.compilation import calls, loops, special_forms
from kubewright.cel.compilation.code import Code, Run, constant, value_of
from kubewright.cel.compilation.frame import FIRST_SLOT, Frame, work
from kubewright.cel.convert import converter
from kubewright.cel.costs.charges import LIST_COST, MAP_COST, STRUCT_COST
from kubewright.cel.errors import CelError
from kubewright.cel.library.operators import no_such_key
from kubewright.cel.library.optionals import field as optional_field
from kubewright.cel.library.optionals import select as optional_select
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
)
from kubewright.cel.values import Optional, TypeValue, no_overload

_PLAIN_KEYS: Final = (str, bool, int)


class Variable(NamedTuple):
    """Slot of a variable, and whether its value is raw JSON."""

    slot: int
    raw: bool


class Compiler:
    """Compiles one expression; `slots` is the size of its frame."""

    def __init__(self, names: list[str], messages: Mapping[str, Type]) -> None:
        self._scopes: list[dict[str, Variable]] = [
            {name: Variable(FIRST_SLOT + index, raw=True) for index, name in enumerate(names)}
        ]
        self.slots = FIRST_SLOT + len(names)
        self._messages = messages

    def enter(self, variables: Mapping[str, bool]) -> list[int]:
        """Open a scope with these local variables (name to raw); return their slots."""
        scope: dict[str, Variable] = {}
        for name, raw in variables.items():
            scope[name] = Variable(self.slots, raw)
            self.slots += 1
        self._scopes.append(scope)
        return [variable.slot for variable in scope.values()]

    def leave(self) -> None:
        """Close the innermost scope."""
        self._scopes.pop()

    def _variable(self, name: str) -> Variable:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise CelError(f"undeclared reference to '{name}'")

    def code(self, expr: Expr) -> Code:
        """Return the code of a node, with a CEL value as result."""
        compiled, raw = self.raw(expr)
        if raw:
            convert = converter(expr.type)
            if convert is not None:
                return Code(_converting(compiled.run, convert, expr.type), compiled.cost)
        return compiled

    def raw(self, expr: Expr) -> tuple[Code, bool]:
        """Return the code of a node, and whether its result may be raw JSON."""
        if isinstance(expr, Ident):
            return self._ident(expr)
        if isinstance(expr, Select):
            if expr.qualified is not None:
                return self._ident(expr.qualified)
            return self._select(expr)
        if isinstance(expr, Call):
            if expr.function == "_[_]" and not is_optional(expr.args[0].type):
                return special_forms.index(self, expr)
            return calls.call(self, expr), False
        if isinstance(expr, Literal):
            return constant(expr.value), False
        if isinstance(expr, ListExpr):
            return self._list(expr), False
        if isinstance(expr, MapExpr):
            return self._map(expr), False
        if isinstance(expr, StructExpr):
            return self._struct(expr), False
        assert isinstance(expr, Comprehension)
        return loops.comprehension(self, expr), False

    def _ident(self, expr: Ident) -> tuple[Code, bool]:
        if expr.type_name is not None:
            return constant(TypeValue(expr.type_name.name)), False
        variable = self._variable(expr.name)
        slot = variable.slot
        return Code(lambda frame: frame[slot], 1), variable.raw

    def attribute(self, expr: Expr) -> tuple[Code, bool]:
        """Return the code of the operand of a selection; a computed operand costs one more."""
        code, raw = self.raw(expr)
        return (code if is_attribute(expr) else Code(code.run, code.cost + 1)), raw

    def _select(self, expr: Select) -> tuple[Code, bool]:
        code, raw = self.attribute(expr.operand)
        target = expr.operand.type
        if is_optional(target):
            inner = target.params[0]
            found = inner.field(expr.field) if inner.kind is Kind.OBJECT else None
            key = found.key if found else expr.field
            run = code.run
            select = optional_field if inner.kind is Kind.OBJECT else optional_select
            if expr.test_only:
                return Code(lambda frame: select(run(frame), key).has_value, code.cost), False
            return Code(lambda frame: select(run(frame), key), code.cost + 1), raw
        if target.kind is Kind.OBJECT and expr.field not in target.null_fields:
            field = target.field(expr.field)
            assert field is not None
            if expr.test_only:
                return Code(_has_field(code.run, field.key), code.cost), False
            path = self._path(expr)
            run = _path_run(*path) if path is not None else _field_run(code.run, field.key)
            return Code(run, code.cost + 1), raw
        if expr.test_only:
            return Code(_has_key(code.run, expr.field), code.cost), False
        return Code(_key_run(code.run, expr.field), code.cost + 1), raw

    def _path(self, expr: Select) -> tuple[int, list[str]] | None:
        """Return the slot and keys of a chain of field selections on a variable."""
        keys: list[str] = []
        current: Expr = expr
        while isinstance(current, Select) and current.qualified is None and not current.test_only:
            target = current.operand.type
            if target.kind is not Kind.OBJECT:
                return None
            field = target.field(current.field)
            assert field is not None
            keys.append(field.key)
            current = current.operand
        if isinstance(current, Select):
            current = current.qualified or current
        if not isinstance(current, Ident):
            return None
        return self._variable(current.name).slot, keys[::-1]

    def _list(self, expr: ListExpr) -> Code:
        codes = [self.code(element) for element in expr.elements]
        if all(code.constant for code in codes) and not expr.optionals:
            return constant([value_of(code) for code in codes])
        runs = [code.run for code in codes]
        cost = sum(code.cost for code in codes) + LIST_COST
        if not expr.optionals:
            return Code(lambda frame: [run(frame) for run in runs], cost)
        marked = [(run, index in expr.optionals) for index, run in enumerate(runs)]

        def build(frame: Frame) -> list[Any]:
            items: list[Any] = []
            for run, optional in marked:
                value = run(frame)
                if optional:
                    if not _unwrap(value):
                        continue
                    value = value.value
                items.append(value)
            return items

        return Code(build, cost)

    def _map(self, expr: MapExpr) -> Code:
        keys = [self.code(entry.key) for entry in expr.entries]
        values = [self.code(entry.value) for entry in expr.entries]
        pairs = [
            (key.run, value.run, entry.optional)
            for key, value, entry in zip(keys, values, expr.entries, strict=True)
        ]

        def build(frame: Frame) -> dict[Any, Any]:
            mapping: dict[Any, Any] = {}
            for key_run, value_run, optional in pairs:
                key, value = key_run(frame), value_run(frame)
                if type(key) is float or not isinstance(key, _PLAIN_KEYS):
                    raise CelError(f"unsupported key type: {type(key).__name__}")
                if optional:
                    if not _unwrap(value):
                        continue
                    value = value.value
                mapping[key] = value
            return mapping

        if all(code.constant for code in (*keys, *values)) and not any(
            entry.optional for entry in expr.entries
        ):
            try:
                made = build([])
            except CelError:
                return Code(build, MAP_COST)
            return constant(made)
        return Code(build, sum(code.cost for code in (*keys, *values)) + MAP_COST)

    def _struct(self, expr: StructExpr) -> Code:
        message = find_message(self._messages, expr.name)
        assert message is not None
        fields: list[tuple[str, Run, bool]] = []
        cost = STRUCT_COST
        for entry in expr.entries:
            code = self.code(entry.value)
            field = message.field(entry.key)
            assert field is not None
            fields.append((field.key, code.run, entry.optional))
            cost += code.cost

        def build(frame: Frame) -> dict[str, Any]:
            result: dict[str, Any] = {}
            for key, run, optional in fields:
                value = run(frame)
                if optional:
                    if not _unwrap(value):
                        continue
                    value = value.value
                result[key] = value
            return result

        return Code(build, cost)


def is_attribute(expr: Expr) -> bool:
    """Return whether a node is a variable or selection, which Kubernetes counts as one attribute."""
    if isinstance(expr, Select):
        return not expr.test_only
    return isinstance(expr, Ident) or (
        isinstance(expr, Call) and expr.function in ("_[_]", "_?._", "_[?_]", "_?_:_")
    )


def _unwrap(value: Any) -> bool:
    if not isinstance(value, Optional):
        raise CelError(f"cannot initialize optional list element from non-optional value {value}")
    return value.has_value


def _converting(run: Run, convert: Any, item: Type) -> Run:
    if item.kind in (Kind.LIST, Kind.MAP, Kind.OBJECT):

        def deep(frame: Frame) -> Any:
            value = run(frame)
            work(frame, value)
            return convert(value)

        return deep
    return lambda frame: convert(run(frame))


def _missing(key: str) -> CelError:
    return CelError(f"no such key: {key}")


def _path_run(slot: int, keys: list[str]) -> Run:
    """Select nested fields; a null field is absent."""
    if len(keys) == 1:
        (only,) = keys

        def one(frame: Frame) -> Any:
            try:
                value = frame[slot][only]
            except KeyError:
                raise _missing(only) from None
            except TypeError:
                raise no_such_key(frame[slot], only) from None
            if value is None:
                raise _missing(only)
            return value

        return one
    if len(keys) == 2:
        first, second = keys

        def two(frame: Frame) -> Any:
            try:
                value = frame[slot][first][second]
            except KeyError as error:
                raise _missing(error.args[0]) from None
            except TypeError:
                raise _unfit(frame[slot], keys) from None
            if value is None:
                raise _missing(second)
            return value

        return two

    def many(frame: Frame) -> Any:
        value = frame[slot]
        try:
            for key in keys:
                value = value[key]
        except KeyError as error:
            raise _missing(error.args[0]) from None
        except TypeError:
            raise _unfit(frame[slot], keys) from None
        if value is None:
            raise _missing(keys[-1])
        return value

    return many


def _unfit(value: Any, keys: list[str]) -> CelError:
    """Return the error of selecting keys from a value that is not an object."""
    for key in keys:
        if not isinstance(value, Mapping):
            break
        value = value.get(key)
        if value is None:
            return _missing(key)
    return no_overload()


def _field_run(run: Run, key: str) -> Run:
    def select(frame: Frame) -> Any:
        try:
            value = run(frame)[key]
        except KeyError:
            raise _missing(key) from None
        except TypeError:
            raise no_overload() from None
        if value is None:
            raise _missing(key)
        return value

    return select


def _has_field(run: Run, key: str) -> Run:
    def has(frame: Frame) -> bool:
        try:
            return run(frame).get(key) is not None
        except AttributeError:
            raise no_overload() from None

    return has


def _key_run(run: Run, key: str) -> Run:
    """Selection from a map or a value of unknown type."""

    def select(frame: Frame) -> Any:
        value = run(frame)
        if isinstance(value, Mapping):
            try:
                return value[key]
            except KeyError:
                raise _missing(key) from None
        if isinstance(value, Optional):
            return optional_select(value, key)
        raise no_such_key(value, key)

    return select


def _has_key(run: Run, key: str) -> Run:
    def has(frame: Frame) -> bool:
        value = run(frame)
        if isinstance(value, Mapping):
            return key in value
        return isinstance(value, Optional) and optional_select(value, key).has_value

    return has
