"""Compile tables of rules into functions.

`Rules` turns a table into the source of one Python function at its first use, the way `dataclasses` does:
conditions are inlined and paths are only built when there is an error, so valid objects cost one dictionary
lookup and one comparison per rule. `Rules.source()` returns the generated function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from kubewright.apiserver.resources.objects import Object
from kubewright.schema import field_errors as fe

from .rules import IMMUTABLE, Check, Errors, Format, MapKeys, ReportAt, Required, Rule, Switch, Unique, When

Hook: TypeAlias = "Callable[..., Errors]"
Group: TypeAlias = "Check | When | Switch | MapKeys | ReportAt | Members"
Entry: TypeAlias = "Rule | Unique | Group | Rules | Hook | Table | Sequence[Entry]"
Table: TypeAlias = "Mapping[str, Entry]"
_Validate = Callable[[Any, str, Any], Errors]
_ROOT = "{p[:-1]}"


class Rules:
    """A compiled table of rules. Call it with an object and its path.

    `context(value)` makes a value for the hooks below that ask for one (`Check(..., context=True)`), for
    rules that need something from an enclosing object.
    """

    __slots__ = ("_compiled", "context", "table")

    def __init__(self, table: Entry, *, context: Callable[[Any], Any] | None = None) -> None:
        self.table = table
        self.context = context
        self._compiled: _Validate | None = None

    def __call__(self, value: Any, path: str = "", context: Any = None) -> Errors:
        """Return the errors of a value, in the order of the table."""
        compiled = self._compiled
        if compiled is None:
            compiled = self._compiled = _Generator(self).compile()
        return compiled(value, f"{path}." if path else "", context)

    def source(self) -> str:
        """Return the source of the generated function, to debug a table."""
        return _Generator(self).source()


class _Node:
    """A value in the tree of paths: rules and children in the order of the table."""

    __slots__ = ("children", "optional")

    def __init__(self) -> None:
        self.children: list[tuple[str, _Node] | Entry] = []
        self.optional = False

    def child(self, segment: str) -> _Node:
        """The child for one segment; adjacent paths with the same segment share it."""
        last = self.children[-1] if self.children else None
        if isinstance(last, tuple) and last[0] == segment:
            return cast("_Node", last[1])
        node = _Node()
        self.children.append((segment, node))
        return node

    def add(self, path: str, entry: Entry) -> None:
        """Add an entry of a table at a path relative to this node."""
        node = self
        for part in path.split(".") if path else ():
            name, brackets, _ = part.partition("[*]")
            if name:
                node = node.child(name.removesuffix("?"))
                node.optional = node.optional or name.endswith("?")
            if brackets:
                node = node.child("[*]")
        node.extend(entry)

    def extend(self, entry: Entry) -> None:
        """Add an entry for the value of this node itself."""
        if isinstance(entry, Mapping):
            for path, inner in entry.items():
                self.add(path, inner)
        elif isinstance(entry, Sequence):
            for one in entry:
                self.extend(one)
        else:
            self.children.append(entry)


def _checks_absence(child: Any) -> bool:
    """Whether an entry has errors for an absent value: a field is required or has a zero value."""
    match child:
        case ("[*]", _):
            return False
        case (_, _Node() as node):
            return not node.optional and any(map(_checks_absence, node.children))
        case Required():
            return True
        case When() | ReportAt():
            return any(map(_checks_absence, _tree(child.rules).children))
        case Rules():
            return any(map(_checks_absence, _tree(child.table).children))
        case _:
            return getattr(child, "absent", None) is not None


class _Generator:
    """Writes the function of one table.

    In the generated code `o` is the object, `p` its path with a dot at the end (or empty), `c` the context
    and `e` the list of errors. `path` is the body of an f-string that evaluates to the path of a value.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.names: dict[str, object] = {"_duplicate": fe.duplicate}
        self.lines = ["def validate(o, p, c):", " e = []"]
        self.counter = 0
        self.base = _ROOT

    def source(self) -> str:
        if self.rules.context is not None:
            self.emit(1, f"c = {self.bind(self.rules.context)}(o)")
        self.node(_tree(self.rules.table), "o", _ROOT, 1, "c")
        self.emit(1, "return e")
        return "\n".join(self.lines)

    def compile(self) -> _Validate:
        exec(compile(self.source(), "<validation rules>", "exec"), self.names)  # noqa: S102 (source from our tables)
        return cast(_Validate, self.names["validate"])

    def below(self, name: str) -> str:
        """Return the path of a field of the object that the innermost table is applied to."""
        return "{p}" + name if self.base == _ROOT else f"{self.base}.{name}"

    def emit(self, depth: int, line: str) -> None:
        self.lines.append(" " * depth + line)

    def bind(self, value: object) -> str:
        name = f"_{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def node(self, node: _Node, var: str, path: str, depth: int, context: str) -> None:
        """Emit everything about the object in `var`, which is not `None`."""
        for position, child in enumerate(node.children):
            if not isinstance(child, tuple):
                self.rule(child, var, path, depth, context)
                if isinstance(child, Rule) and child.stop and position + 1 < len(node.children):
                    self.emit(depth, "else:")
                    self.node(_subtree(node.children[position + 1 :]), var, path, depth + 1, context)
                    return
                continue
            segment, inner = child
            if segment == "[*]":
                self.items(inner, var, path, depth, context)
                continue
            field = self.variable("v")
            below = "{p}" + segment if path == _ROOT else f"{path}.{segment}"
            self.emit(depth, f"{field} = {var}.get({segment!r})")
            self.field(inner, field, below, depth, context)

    def field(self, node: _Node, var: str, path: str, depth: int, context: str) -> None:
        """Emit the rules of a field that may be absent."""
        children: list[Any] = list(node.children)
        if children and isinstance(children[0], Required):
            required = children.pop(0)
            self.emit(depth, f"if {required.condition(var, self.bind)}:")
            self.emit(depth + 1, f"e += {self.bind(required)}.errors({var}, f'{path}')")
            if children:
                self.emit(depth, "else:")
                self.present(children, var, path, depth + 1, context)
            return
        if not any(_checks_absence(child) and not node.optional for child in children):
            self.emit(depth, f"if {var} is not None:")
            self.present(children, var, path, depth + 1, context)
            return
        holder = self.variable("o")
        self.emit(depth, f"{holder} = {{}} if {var} is None else {var}")
        for child in children:
            if isinstance(child, (tuple, When, Rules)):
                self.present([child], holder, path, depth, context)
            elif isinstance(child, ReportAt):
                self.rule(child, var, path, depth, context)
            elif not _checks_absence(child):
                self.emit(depth, f"if {var} is not None:")
                self.present([child], var, path, depth + 1, context)
            else:
                value = self.variable("w")
                self.emit(depth, f"{value} = {child.absent!r} if {var} is None else {var}")
                self.rule(child, value, path, depth, context)

    def present(self, children: list[Any], var: str, path: str, depth: int, context: str) -> None:
        self.node(_subtree(children), var, path, depth, context)

    def items(self, node: _Node, var: str, path: str, depth: int, context: str) -> None:
        """Emit a loop over the items of the list in `var`."""
        index, item = self.variable("i"), self.variable("x")
        seen: dict[int, str] = {}
        for position, child in enumerate(node.children):
            if isinstance(child, Unique):
                seen[position] = self.variable("seen")
                self.emit(depth, f"{seen[position]} = set()")
        self.emit(depth, f"for {index}, {item} in enumerate({var}):")
        below = f"{path}[{{{index}}}]"
        for position, child in enumerate(node.children):
            if isinstance(child, Unique):
                if not child.last:
                    self.unique(child, seen[position], item, below, depth + 1)
            else:
                self.node(_subtree([child]), item, below, depth + 1, context)
        for position, child in enumerate(node.children):
            if isinstance(child, Unique) and child.last:
                self.emit(depth, f"for {index}, {item} in enumerate({var}):")
                self.unique(child, seen[position], item, below, depth + 1)

    def unique(self, rule: Unique, seen: str, item: str, path: str, depth: int) -> None:
        key = self.variable("k")
        self.emit(depth, f"{key} = {item}.get({rule.key!r}) or ''" if rule.key else f"{key} = {item}")
        if rule.only is not None:
            self.emit(depth, f"if not ({rule.only.condition(key, self.bind)}):")
            depth += 1
        at = rule.key if rule.at is None else rule.at
        where = f"{path}.{at}" if at else path
        if rule.ignore_empty:
            self.emit(depth, f"if {key}:")
            depth += 1
        self.emit(depth, f"if {key} in {seen}:")
        self.emit(depth + 1, f"e.append(_duplicate(f'{where}', {key}))")
        if rule.stop:
            self.emit(depth + 1, "continue")
        self.emit(depth, f"{seen}.add({key})")

    def rule(self, rule: Any, var: str, path: str, depth: int, context: str) -> None:
        """Emit one rule for the value in `var`, which is not `None`."""
        match rule:
            case Rule():
                self.emit(depth, f"if {rule.condition(var, self.bind)}:")
                self.emit(depth + 1, f"e += {self.bind(rule)}.errors({var}, f'{path}')")
            case Members():
                self.emit(depth, f"e += {self.bind(rule)}({var}, f'{path}', {context})")
            case Check():
                extra = f", {context}" if rule.context else ""
                self.emit(depth, f"e += {self.bind(rule.function)}({var}, f'{path}'{extra})")
            case When():
                self.emit(depth, f"if {self.bind(rule.predicate)}({var}):")
                self.node(_tree(rule.rules), var, path, depth + 1, context)
            case Switch():
                for number, (value, table) in enumerate(rule.cases.items()):
                    word = "elif" if number else "if"
                    self.emit(depth, f"{word} {var}.get({rule.discriminator!r}) == {value!r}:")
                    self.emit(depth + 1, "pass")
                    self.node(_tree(table), var, path, depth + 1, context)
            case ReportAt():
                below = {"": path.rpartition("[")[0], ".": self.base}.get(rule.path, self.below(rule.path))
                self.field(_tree(rule.rules), var, below, depth, context)
            case MapKeys():
                key = self.variable("k")
                self.emit(depth, f"for {key} in sorted({var}):")
                # Formats skip empty fields; an empty key is checked.
                check = replace(rule.rule, absent="") if isinstance(rule.rule, Format) else rule.rule
                self.rule(check, key, f"{path}[{{{key}}}]", depth + 1, context)
            case Rules():
                inner = context
                if rule.context is not None:
                    inner = self.variable("c")
                    self.emit(depth, f"{inner} = {self.bind(rule.context)}({var})")
                outer, self.base = self.base, path
                self.node(_tree(rule.table), var, path, depth, inner)
                self.base = outer
            case _:
                self.emit(depth, f"e += {self.bind(rule)}({var}, f'{path}')")


def _tree(entry: Any) -> _Node:
    node = _Node()
    node.extend(entry)
    return node


def _subtree(children: list[Any]) -> _Node:
    node = _Node()
    node.children = children
    return node


class Members:
    """A union with a table of rules for each member; exactly one member must be set.

    The first member that is set, in the order of `tables`, is validated; the others are forbidden. `missing`
    and `excess` are the texts of the errors, `paths` the names of members that errors spell differently.
    """

    __slots__ = ("excess", "missing", "paths", "tables")

    def __init__(
        self,
        tables: Mapping[str, Entry],
        *,
        missing: str,
        excess: str,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        self.tables = {name: Rules(table) for name, table in tables.items()}
        self.missing = missing
        self.excess = excess
        self.paths = paths or {}

    def __call__(self, value: Object, path: str, context: Any = None) -> Errors:
        """Return the errors of a union."""
        present = [name for name in self.tables if value.get(name) is not None]
        if not present:
            return [fe.required(path, self.missing)]
        first, *others = present
        errors = self.member(first, value[first], path, context)
        return errors + [fe.forbidden(f"{path}.{name}", self.excess) for name in others]

    def member(self, name: str, value: Any, path: str, context: Any = None) -> Errors:
        """Return the errors of one member."""
        return self.tables[name](value, f"{path}.{self.paths.get(name, name)}", context)


class Immutable:
    """The field must not change. `once_set`: it may be set once.

    `show` returns the value in the message. `forbidden`: the error is `Forbidden`, without the value.
    """

    __slots__ = ("detail", "forbidden", "once_set", "show")

    def __init__(
        self,
        detail: str = IMMUTABLE,
        *,
        once_set: bool = False,
        forbidden: bool = False,
        show: Callable[[Any], Any] | None = None,
    ) -> None:
        self.detail = detail
        self.once_set = once_set
        self.forbidden = forbidden
        self.show = show

    def __call__(self, new: Any, old: Any, path: str) -> Errors:
        """Return an error if a field has changed."""
        if new == old or (self.once_set and not old):
            return []
        if self.forbidden:
            return [fe.forbidden(path, self.detail)]
        return [fe.invalid(path, new if self.show is None else self.show(new), self.detail)]


ChangeTable = Mapping[str, Callable[[Any, Any, str], Errors]]


class UpdateRules:
    """The rules of an update: parts that apply in order.

    A part is a `Rules`, for the new object; a table from field paths to rules for a change (`Immutable()`, or
    any function of the new value, the old value and the path); or a function of the new and the old object.
    """

    __slots__ = ("_parts",)

    def __init__(self, *parts: Rules | ChangeTable | Callable[[Object, Object], Errors]) -> None:
        self._parts = [
            [(path, path.split("."), rule) for path, rule in part.items()]
            if isinstance(part, Mapping)
            else part
            for part in parts
        ]

    def __call__(self, new: Object, old: Object) -> Errors:
        """Return the errors of an update."""
        errors: Errors = []
        for part in self._parts:
            if isinstance(part, Rules):
                errors += part(new)
            elif isinstance(part, list):
                for path, names, rule in part:
                    errors += rule(_value(new, names), _value(old, names), path)
            else:
                errors += part(new, old)
        return errors


def value_at(obj: Any, path: str) -> Any:
    """Return the value at a dotted path, or `None`."""
    return _value(obj, path.split("."))


def _value(obj: Any, names: Sequence[str]) -> Any:
    for name in names:
        obj = obj.get(name) if obj else None
    return obj
