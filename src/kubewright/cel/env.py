"""The environment of an expression, and the steps from text to result.

text --check--> Checked (type, references, cost) --compile--> Program --call--> value
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kubewright.cel.checking.checker import Checker
from kubewright.cel.checking.types import DYN, STRING, Kind, Type, object_type
from kubewright.cel.compatibility import missing_functions
from kubewright.cel.compilation.compiler import Compiler
from kubewright.cel.compilation.frame import FIRST_SLOT, Budget
from kubewright.cel.costs import limits
from kubewright.cel.costs.call_estimates import CostRange
from kubewright.cel.costs.estimate import Estimator
from kubewright.cel.errors import CelCheckError, CelError, CelResultError, CelSyntaxError, CostExceeded, Issue
from kubewright.cel.library import patch_functions, standard_functions, type_names
from kubewright.cel.library.regex import compiled as compiled_pattern
from kubewright.cel.library.time import parse_duration, parse_timestamp
from kubewright.cel.syntax.ast import Expr
from kubewright.cel.syntax.parser import ParseOptions, parse

_LITERAL_CHECKS: Final[dict[str, Callable[[Any], object]]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": compiled_pattern,
}

JSON_PATCH: Final = object_type("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})
"""The operation that mutating admission policies construct."""
OBJECT: Final = object_type("Object", {}, open_fields=True)
"""The object that apply configurations construct: `Object{spec: Object.spec{...}}`, with any fields."""


class Program:
    """A compiled expression, called with the values of its variables; thread-safe."""

    __slots__ = ("_cost", "_names", "_padding", "_run", "source")

    def __init__(
        self, source: str, run: Callable[[list[Any]], Any], cost: int, names: list[str], slots: int
    ) -> None:
        self.source = source
        self._run = run
        self._cost = cost
        self._names = names
        self._padding: list[Any] = [None] * (slots - FIRST_SLOT - len(names))

    def __call__(self, activation: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the value; raise `CelError` or `CostExceeded`.

        The cost is added to the budget even on errors. Without a budget the limit of one call applies.
        """
        try:
            values = [activation[name] for name in self._names]
        except KeyError as missing:
            raise CelError(f"no such attribute(s): {missing.args[0]}") from None
        limit = budget.per_call if budget is not None else limits.PER_CALL_LIMIT
        allocation = budget.allocation if budget is not None else [0]
        frame = [self._cost, limit, 0, allocation, *values, *self._padding]
        try:
            result = self._run(frame)
        except RecursionError:
            raise CelError("max recursion depth exceeded") from None
        except (OverflowError, MemoryError) as error:
            raise CelError(str(error)) from None
        finally:
            if budget is not None:
                budget.used += frame[0]
        if frame[0] > limit or (budget is not None and budget.used > budget.limit):
            raise CostExceeded
        return result

    def __repr__(self) -> str:
        return f"Program({self.source!r})"


class Checked:
    """A checked expression."""

    __slots__ = ("_cost", "_env", "references", "source", "tree", "type")

    def __init__(self, env: Env, source: str, tree: Expr, references: frozenset[str]) -> None:
        self._env = env
        self.source = source
        self.tree = tree
        self.type: Type = tree.type
        self.references: frozenset[str] = references
        """The variables the expression reads."""
        self._cost: CostRange | None = None

    @property
    def cost(self) -> CostRange:
        """The static estimate, from the sizes of the types of the variables."""
        if self._cost is None:
            self._cost = Estimator(self._env.variables).cost(self.tree)
        return self._cost

    def compile(self) -> Program:
        """Return the program; raise `CelError` if a constant part of it cannot be evaluated."""
        names = sorted(self.references)
        compiler = Compiler(names, self._env.messages)
        try:
            code = compiler.code(self.tree)
        except RecursionError:
            raise CelError(f"expression recursion limit exceeded: {limits.MAX_NESTING}") from None
        return Program(self.source, code.run, code.cost, names, compiler.slots)


class Env:
    """Variables, types and functions that expressions may use.

    `variables` maps names (dots allowed, as in `authorizer.requestResource`) to types; `types` are objects
    that expressions may construct; `bindings` allows `cel.bind`.
    """

    __slots__ = ("_options", "_type_names", "messages", "variables")

    def __init__(
        self,
        variables: Mapping[str, Type] | None = None,
        *,
        types: Iterable[Type] = (),
        bindings: bool = False,
    ) -> None:
        self.variables: dict[str, Type] = dict(variables or {})
        self.messages: dict[str, Type] = {item.name: item for item in types}
        self._type_names = {**type_names(), **self.messages} if self.messages else type_names()
        self._options = ParseOptions(bindings=bindings)

    def parse(self, text: str) -> Expr:
        """Return the expression tree; raise `CelSyntaxError`."""
        return parse(text, self._options)[0]

    def check(self, text: str, expected: Type | None = None) -> Checked:
        """Return the checked expression; raise `CelSyntaxError`, `CelCheckError` or `CelResultError`."""
        missing = missing_functions(text)
        options = ParseOptions(bindings=self._options.bindings, missing=missing) if missing else self._options
        tree, source = parse(text, options)
        functions = patch_functions if JSON_PATCH.name in self.messages else standard_functions
        checker = Checker(
            source,
            self.variables,
            functions(missing),
            self._type_names,
            self.messages,
            _LITERAL_CHECKS,
        )
        try:
            checker.check(tree)
        except RecursionError:
            issue = Issue(-1, -1, f"expression recursion limit exceeded: {limits.MAX_NESTING}")
            raise CelSyntaxError(text, [issue]) from None
        if checker.issues:
            raise CelCheckError(text, checker.issues, checker.total)
        if expected is not None and not _is(tree.type, expected):
            raise CelResultError(text, expected, tree.type)
        return Checked(self, text, tree, frozenset(checker.references))

    def compile(self, text: str, expected: Type | None = None) -> Program:
        """`check` and `compile` in one step."""
        return self.check(text, expected).compile()


def _is(actual: Type, expected: Type) -> bool:
    return actual.same(expected) or (expected.kind is Kind.DYN)
