"""Parser: tokens to an expression tree.

Two functions call each other: `_expression` parses operators by precedence, `_operand` a unary operator, a
primary and its suffixes (`.x`, `[i]`, calls). Chains of `&&` and `||` become balanced trees, so that long
chains are not deep. Nesting and size are limited as in Kubernetes, so later passes can recurse. The first
syntax error ends the parse, with ANTLR's message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubewright.cel.checking.types import BOOL, BYTES, DOUBLE, INT, NULL, RESERVED, STRING, UINT
from kubewright.cel.costs import limits
from kubewright.cel.errors import MAX_REPORTED, CelSyntaxError, Issue
from kubewright.cel.syntax import macros
from kubewright.cel.syntax.ast import Call, Entry, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from kubewright.cel.syntax.lexer import EOF, Source, Token, shown, tokenize, unescape_bytes, unescape_string
from kubewright.cel.values import MAX_INT, MAX_UINT, MIN_INT, UInt

_RELATIONS: Final = frozenset({"<", "<=", ">=", ">", "==", "!=", "in"})
_PRECEDENCE: Final = {
    "*": 5,
    "/": 5,
    "%": 5,
    "+": 4,
    "-": 4,
    **dict.fromkeys(_RELATIONS, 3),
    "&&": 2,
    "||": 1,
}
_GRAMMAR_ORDER: Final = (
    *("==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!"),
    *("?", ":", "+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING"),
    *("BYTES", "IDENTIFIER", "ESC_IDENTIFIER"),
)
_OPERAND: Final = (
    *("[", "{", "(", ".", "-", "!", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING"),
    *("BYTES", "IDENTIFIER"),
)
_AFTER_OPERAND: Final = frozenset({EOF, ")", "]", "}", ",", ":", "?", ".", "[", *_PRECEDENCE})
_FOLLOWING: Final = {**dict.fromkeys((")", "]", "}"), _AFTER_OPERAND), ":": frozenset(_OPERAND)}
_SYMBOLIC: Final = frozenset(name for name in _GRAMMAR_ORDER if name[0].isupper())


class _Stop(Exception):
    """Parsing cannot continue; the issue is recorded."""


class ParseOptions:
    """Parser options of an environment."""

    __slots__ = ("bindings", "missing")

    def __init__(self, *, bindings: bool = False, missing: frozenset[str] = frozenset()) -> None:
        self.bindings = bindings
        self.missing = missing
        """Macros that are not expanded."""


def parse(text: str, options: ParseOptions | None = None) -> tuple[Expr, Source]:
    """Return the expression tree; raise `CelSyntaxError` with all issues."""
    source = Source(text)
    if len(text) > limits.MAX_EXPRESSION_SIZE:
        message = (
            f"expression code point size exceeds limit: size: {len(text)}, limit {limits.MAX_EXPRESSION_SIZE}"
        )
        raise CelSyntaxError(text, [Issue(-1, -1, message)])
    issues: list[Issue] = []
    parser = _Parser(source, tokenize(source, issues), issues, options or ParseOptions())
    try:
        tree = parser.start()
    except _Stop:
        raise CelSyntaxError(text, issues) from None
    except RecursionError:
        raise CelSyntaxError(text, [*issues, _too_deep()]) from None
    if issues:
        raise CelSyntaxError(text, issues)
    return tree, source


def _too_deep() -> Issue:
    return Issue(-1, -1, f"expression recursion limit exceeded: {limits.MAX_NESTING}")


def _names(kinds: Iterable[str]) -> str:
    wanted = set(kinds)
    ordered = [_name(kind) for kind in (EOF, *_GRAMMAR_ORDER) if kind in wanted]
    return ordered[0] if len(ordered) == 1 else "{" + ", ".join(ordered) + "}"


def _name(kind: str) -> str:
    if kind == EOF:
        return "<EOF>"
    return kind if kind in _SYMBOLIC else f"'{kind}'"


class _Parser:
    def __init__(
        self, source: Source, tokens: list[Token], issues: list[Issue], options: ParseOptions
    ) -> None:
        self._source = source
        self._tokens = tokens
        self._index = 0
        self._token = tokens[0]
        self._issues = issues
        self._depth = 0
        self._options = options
        self._recovering = False
        self._closers = [EOF]

    def start(self) -> Expr:
        tree = self._expression()
        self._match(EOF)
        return tree

    def report(self, pos: int, message: str) -> None:
        """Record an issue and continue."""
        self._issues.append(self._source.issue(pos, message))

    def _syntax(self, message: str) -> None:
        """Report a syntax error, unless it is a consequence of the previous one."""
        if not self._recovering:
            self.report(self._token.pos, f"Syntax error: {message}")
            if len(self._issues) > MAX_REPORTED:
                raise _Stop
        self._recovering = True

    def _unexpected(self, kinds: Iterable[str]) -> bool:
        """Report an unexpected token; return whether skipping it makes the input valid."""
        kinds = tuple(kinds)
        text = shown(self._token.text)
        if self._token.kind != EOF and self._peek() in kinds:
            self._syntax(f"extraneous input '{text}' expecting {_names(kinds)}")
            self._next()
            return True
        self._syntax(f"mismatched input '{text}' expecting {_names(kinds)}")
        self._skip()
        return False

    def _skip(self) -> None:
        """Skip tokens up to one that is valid here."""
        while self._token.kind not in _PRECEDENCE and self._token.kind not in self._closers:
            self._index += 1
            self._token = self._tokens[self._index]

    def _missing(self) -> Expr:
        """Return a placeholder for a missing operand."""
        return Literal(self._token.pos, None, NULL)

    def _next(self) -> Token:
        token = self._token
        self._recovering = False
        if token.kind != EOF:
            self._index += 1
            self._token = self._tokens[self._index]
        return token

    def _peek(self) -> str:
        return self._tokens[min(self._index + 1, len(self._tokens) - 1)].kind

    def _match(self, kind: str) -> Token:
        if self._token.kind == kind:
            return self._next()
        if self._peek() != kind and self._token.kind in _FOLLOWING.get(kind, ()):
            self._syntax(f"missing {_names([kind])} at '{shown(self._token.text)}'")
            return self._token
        found = self._unexpected([kind])
        return self._next() if found or self._token.kind == kind else self._token

    def _closing(self, kind: str) -> None:
        """Parse the end of a list or map, optionally after a comma."""
        if self._token.kind not in (kind, ",") and not self._recovering:
            self._unexpected([kind, ","])
        self._match(kind)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > limits.MAX_NESTING:
            self._issues.append(_too_deep())
            raise _Stop

    def _expression(self, minimum: int = 0) -> Expr:
        self._enter()
        depth = self._depth
        left = self._operand()
        while True:
            operator = self._token.kind
            if operator == "?" and minimum == 0:
                question = self._next()
                truthy = self._expression(1)
                self._match(":")
                falsy = self._expression()
                left = Call(question.pos, "_?_:_", None, [left, truthy, falsy])
                break
            precedence = _PRECEDENCE.get(operator, -1)
            if precedence < max(minimum, 1):
                break
            if precedence <= 2:
                left = self._logic(left, operator, precedence)
                continue
            token = self._next()
            right = self._expression(precedence + 1)
            left = Call(token.pos, "@in" if operator == "in" else f"_{operator}_", None, [left, right])
            self._enter()
        self._depth = depth - 1
        return left

    def _logic(self, first: Expr, operator: str, precedence: int) -> Expr:
        terms, positions = [first], []
        while self._token.kind == operator:
            positions.append(self._next().pos)
            terms.append(self._expression(precedence + 1))
        return _balanced(f"_{operator}_", terms, positions, 0, len(positions) - 1)

    def _operand(self) -> Expr:
        token = self._token
        depth = self._depth
        if token.kind in ("!", "-") and not (token.kind == "-" and self._peek() in ("NUM_INT", "NUM_FLOAT")):
            count = 0
            while self._token.kind == token.kind:
                self._next()
                count += 1
            if self._token.kind not in _OPERAND:
                return self._dangling(token)
            operand = self._member(self._primary(), depth)
            if count % 2 == 0:
                return operand
            return Call(token.pos, "!_" if token.kind == "!" else "-_", None, [operand])
        return self._member(self._primary(), depth)

    def _dangling(self, operator: Token) -> Expr:
        """Report a unary operator without an operand."""
        if operator.kind == "!":
            self._syntax(f"extraneous input '{shown(self._token.text)}' expecting {_names(_OPERAND)}")
        else:
            seen = shown(self._source.text[operator.pos : self._end()])
            self._syntax(f"no viable alternative at input '{seen}'")
            self._recovering = self._token.kind != EOF
            self._unexpected(_OPERAND)
        self._skip()
        return self._missing()

    def _member(self, left: Expr, depth: int) -> Expr:
        while True:
            kind = self._token.kind
            if kind == ".":
                left = self._selection(left)
            elif kind == "[":
                token = self._next()
                optional = self._optional_mark()
                index = self._inside("]")
                self._match("]")
                left = Call(token.pos, "_[?_]" if optional else "_[_]", None, [left, index])
            else:
                self._depth = depth
                return left
            self._enter()

    def _optional_mark(self) -> bool:
        if self._token.kind == "?":
            self._next()
            return True
        return False

    def _selection(self, left: Expr) -> Expr:
        dot = self._next()
        optional = self._optional_mark()
        token = self._token
        if token.kind not in ("IDENTIFIER", "ESC_IDENTIFIER"):
            return self._no_field(dot, optional)
        self._next()
        if self._token.kind == "(" and token.kind == "IDENTIFIER" and not optional:
            bracket = self._next()
            return self._call(bracket.pos, token.text, left, self._arguments())
        name = token.text[1:-1] if token.kind == "ESC_IDENTIFIER" else token.text
        if optional:
            return Call(dot.pos, "_?._", None, [left, Literal(token.pos, name, STRING)])
        return Select(dot.pos, left, name)

    def _no_field(self, dot: Token, optional: bool) -> Expr:
        token = self._token
        if optional:
            self._unexpected(["IDENTIFIER", "ESC_IDENTIFIER"])
            self.report(token.pos, "unsupported ident kind")
        elif token.kind in ("true", "false", "null"):
            self._syntax(f"mismatched input '{token.text}' expecting IDENTIFIER")
        else:
            seen = shown(self._source.text[dot.pos : self._end()]).rstrip()
            self._syntax(f"no viable alternative at input '{seen}'")
        raise _Stop

    def _inside(self, closer: str) -> Expr:
        """Parse an expression up to a closing token of this or an outer level."""
        self._closers.append(closer)
        inner = self._expression()
        self._closers.pop()
        return inner

    def _arguments(self) -> list[Expr]:
        arguments: list[Expr] = []
        if self._token.kind != ")":
            if self._token.kind not in _OPERAND and not self._unexpected([*_OPERAND, ")"]):
                return arguments
            self._closers.append(",")
            arguments.append(self._inside(")"))
            while self._token.kind == ",":
                self._next()
                arguments.append(self._inside(")"))
            self._closers.pop()
        self._match(")")
        return arguments

    def _call(self, pos: int, name: str, target: Expr | None, arguments: list[Expr]) -> Expr:
        if name in self._options.missing:
            return Call(pos, name, target, arguments)
        try:
            expanded = macros.expand(pos, name, target, arguments, self._options.bindings)
        except macros.MacroError as error:
            self.report(error.pos, error.message)
            return Literal(pos, None, NULL)
        return expanded or Call(pos, name, target, arguments)

    def _primary(self) -> Expr:
        token = self._token
        kind = token.kind
        if kind == "IDENTIFIER" or kind == ".":
            return self._named()
        if kind == "(":
            self._next()
            inner = self._inside(")")
            self._match(")")
            return inner
        if kind == "[":
            return self._list()
        if kind == "{":
            brace = self._next()
            return MapExpr(brace.pos, self._entries(fields=False))
        return self._literal()

    def _named(self) -> Expr:
        first = self._token
        prefix = ""
        if first.kind == ".":
            self._next()
            prefix = "."
            if self._token.kind != "IDENTIFIER":
                seen = shown(self._source.text[first.pos : self._end()])
                self._syntax(f"no viable alternative at input '{seen}'")
                raise _Stop
        token = self._next()
        if self._is_message():
            names = [token.text]
            while self._token.kind == ".":
                self._next()
                names.append(self._next().text)
            brace = self._match("{")
            return StructExpr(brace.pos, prefix + ".".join(names), self._entries(fields=True))
        if token.text in RESERVED:
            self.report(first.pos, f"reserved identifier: {token.text}")
        if self._token.kind == "(":
            bracket = self._next()
            return self._call(bracket.pos, prefix + token.text, None, self._arguments())
        return Ident(token.pos, prefix + token.text)

    def _end(self) -> int:
        return self._token.pos + (0 if self._token.kind == EOF else len(self._token.text))

    def _is_message(self) -> bool:
        index = self._index
        while self._tokens[index].kind == "." and self._tokens[index + 1].kind == "IDENTIFIER":
            index += 2
        return self._tokens[index].kind == "{"

    def _list(self) -> Expr:
        bracket = self._next()
        elements: list[Expr] = []
        optionals: set[int] = set()
        while self._token.kind != "]":
            if elements:
                if self._token.kind != ",":
                    break
                self._next()
                if self._token.kind == "]":
                    break
            elif self._token.kind == ",":
                self._next()
                break
            if self._optional_mark():
                optionals.add(len(elements))
            elif not elements and self._token.kind not in _OPERAND:
                if not self._unexpected([*_OPERAND, "]", ",", "?"]):
                    break
                continue
            elements.append(self._inside("]"))
        self._closing("]")
        return ListExpr(bracket.pos, elements, frozenset(optionals))

    def _entries(self, *, fields: bool) -> list[Entry]:
        entries: list[Entry] = []
        while self._token.kind != "}":
            if entries:
                if self._token.kind != ",":
                    break
                self._next()
                if self._token.kind == "}":
                    break
            elif self._token.kind == ",":
                self._next()
                break
            optional = self._optional_mark()
            if not fields and not entries and not optional and self._token.kind not in _OPERAND:
                if not self._unexpected([*_OPERAND, "}", ",", "?"]):
                    break
                continue
            if fields:
                token = self._token
                if token.kind not in ("IDENTIFIER", "ESC_IDENTIFIER"):
                    if not self._unexpected(["}", ",", "?", "IDENTIFIER", "ESC_IDENTIFIER"]):
                        raise _Stop
                    continue
                self._next()
                key: object = token.text[1:-1] if token.kind == "ESC_IDENTIFIER" else token.text
            else:
                key = self._inside(":")
            colon = self._match(":")
            entries.append(Entry(colon.pos, key, self._inside("}"), optional))
        self._closing("}")
        return entries

    def _literal(self) -> Expr:
        token = self._token
        pos = token.pos
        negative = token.kind == "-"
        if negative:
            self._next()
            token = self._token
        kind, text = token.kind, token.text
        if kind not in ("NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES", "true", "false", "null"):
            if self._unexpected(_OPERAND):
                return self._operand()
            return self._missing()
        self._next()
        if kind == "NUM_INT":
            value = int(text, 16) if text[:2] == "0x" else self._decimal(text)
            value = -value if negative else value
            if not MIN_INT <= value <= MAX_INT:
                self.report(pos, "invalid int literal")
            return Literal(pos, value, INT)
        if kind == "NUM_UINT":
            digits = text[:-1]
            unsigned = int(digits, 16) if digits[:2] == "0x" else self._decimal(digits)
            if unsigned > MAX_UINT:
                self.report(pos, "invalid uint literal")
            return Literal(pos, UInt(unsigned), UINT)
        if kind == "NUM_FLOAT":
            number = float(text)
            if number in (float("inf"), float("-inf")):
                self.report(pos, "invalid double literal")
            return Literal(pos, -number if negative else number, DOUBLE)
        if kind in ("true", "false"):
            return Literal(pos, kind == "true", BOOL)
        if kind == "null":
            return Literal(pos, None, NULL)
        try:
            if kind == "BYTES":
                return Literal(pos, unescape_bytes(text), BYTES)
            return Literal(pos, unescape_string(text), STRING)
        except ValueError as error:
            self.report(pos, str(error))
            return Literal(pos, "", STRING)

    @staticmethod
    def _decimal(digits: str) -> int:
        """Parse an int; very long numbers, which Python rejects, are out of range."""
        significant = digits.lstrip("0") or "0"
        return int(significant) if len(significant) <= 20 else MAX_UINT + 1


def _balanced(function: str, terms: list[Expr], positions: list[int], low: int, high: int) -> Expr:
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balanced(function, terms, positions, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balanced(function, terms, positions, middle + 1, high)
    return Call(positions[middle], function, None, [left, right])
