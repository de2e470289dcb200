"""Permissions that the code of a project uses, found in its source without running it.

Calls of a client (`ctx.client.get(ConfigMap, ...)`, `client.delete(pod)`) and of a context (`ctx.apply(...)`)
are read from the syntax tree of each module. The kind is the class in the call, or that of a variable: a
parameter with an annotation, a constructed object, or the result of another call. Calls whose kind is not
known are counted, so that a report can say what it does not cover.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

from kubewright.api.declaring.declarations import Rbac
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.scheme import Scheme, SchemeError, UnknownKindError

_READ: Final = ("get", "list", "watch")
_VERBS: Final[dict[str, tuple[str, ...]]] = {
    "apply": ("create", "patch"),
    "create": ("create",),
    "create_or_patch": ("get", "create", "patch"),
    "create_or_update": ("get", "create", "patch"),
    "delete": ("delete",),
    "delete_all": ("deletecollection",),
    "get": ("get",),
    "get_or_none": ("get",),
    "list": ("list",),
    "patch": ("patch",),
    "update": ("patch",),
    "update_status": ("patch",),
    "wait": _READ,
    "watch": ("list", "watch"),
}
"""Verbs that the methods of a client require; updates of objects that were read are sent as patches."""
_POD_SUBRESOURCES: Final = {
    "attach": ("attach", "create"),
    "copy_from": ("exec", "create"),
    "copy_to": ("exec", "create"),
    "exec": ("exec", "create"),
    "log": ("log", "get"),
    "port_forward": ("portforward", "create"),
}
_ENSURE: Final = (*_READ, "create", "patch", "delete")
_READ_METHODS: Final = ("get", "get_or_none", "list", "wait", "watch")


@dataclass(frozen=True)
class ClientCall:
    """A call that requires permissions."""

    where: str
    """`file:line`"""
    text: str
    """The call, such as `client.delete(Secret)`."""
    group: str
    resource: str
    verbs: tuple[str, ...]

    def missing(self, rules: Iterable[Rbac]) -> tuple[str, ...]:
        """Return the verbs that no rule grants, regardless of namespaces and object names."""
        granted = [rule for rule in rules if _covers(rule, self.group, self.resource)]
        return tuple(
            verb for verb in self.verbs if not any({verb, "*"} & set(rule.verbs) for rule in granted)
        )


@dataclass
class ClientCalls:
    """Calls of a project."""

    calls: list[ClientCall] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """`file:line` of calls whose kind is not known."""


def find_client_calls(modules: Iterable[ModuleType], scheme: Scheme | None = None) -> ClientCalls:
    """Return the client calls in the source of modules.

    Modules named `kubectl_*` are skipped: plug-ins of kubectl use the permissions of the user.
    """
    found = ClientCalls()
    for module in modules:
        if module.__name__.rpartition(".")[2].startswith("kubectl_"):
            continue
        try:
            source, file = inspect.getsource(module), inspect.getsourcefile(module)
        except (OSError, TypeError):
            continue
        scope = _Scope(vars(module), file or module.__name__, scheme or Scheme(), found)
        scope.visit_body(ast.parse(source).body, {})
    return found


def _covers(rule: Rbac, group: str, resource: str) -> bool:
    groups = {"" if name == "core" else name for name in rule.groups}
    if not {group, "*"} & groups:
        return False
    subresource = resource.partition("/")[2]
    return any(
        pattern in ("*", resource) or (subresource and pattern == f"*/{subresource}")
        for pattern in rule.resources
    )


@dataclass
class _Scope:
    """Names of a module, and the result."""

    names: Mapping[str, Any]
    file: str
    scheme: Scheme
    found: ClientCalls

    def visit_body(self, body: Iterable[ast.stmt], local: dict[str, type]) -> None:
        """Visit statements in order; `local` are the kinds of local variables."""
        for statement in body:
            self.visit(statement, local)

    def visit(self, node: ast.AST, local: dict[str, type]) -> None:
        """Visit one node and what it contains."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = dict(local)
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            for argument in arguments:
                kind = self.resolve(argument.annotation, local) if argument.annotation else None
                inner.pop(argument.arg, None)
                if kind is not None:
                    inner[argument.arg] = kind
            self.visit_body(node.body, inner)
            return
        if isinstance(node, ast.Call):
            self._call(node, local)
        if isinstance(node, ast.For | ast.AsyncFor):
            self.visit(node.iter, local)
            self._bind([node.target], self.resolve(node.iter, local), local)
        children = ast.iter_child_nodes(node)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            # The generators of a comprehension bind the names that its element uses.
            children = iter(sorted(children, key=lambda child: not isinstance(child, ast.comprehension)))
        for child in children:
            if not (isinstance(node, ast.For | ast.AsyncFor) and child is node.iter):
                self.visit(child, local)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self._bind(targets, self.resolve(node.value, local), local)
        if isinstance(node, ast.comprehension):
            self._bind([node.target], self.resolve(node.iter, local), local)

    def _bind(self, targets: Iterable[ast.expr], kind: type | None, local: dict[str, type]) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                local.pop(target.id, None)
                if kind is not None:
                    local[target.id] = kind

    def resolve(self, node: ast.expr | None, local: Mapping[str, type]) -> type | None:
        """Return the kind that an expression is, contains or returns."""
        if isinstance(node, ast.Await | ast.Starred):
            return self.resolve(node.value, local)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return _as_kind(self.names.get(node.value))
        if isinstance(node, ast.Name):
            return local.get(node.id) or _as_kind(self.names.get(node.id))
        if isinstance(node, ast.Attribute):
            return _as_kind(self._evaluate(node))
        if isinstance(node, ast.Subscript | ast.BinOp):
            return next((kind for part in _parts(node) if (kind := self.resolve(part, local))), None)
        if isinstance(node, ast.Call):
            return self._resolve_call(node, local)
        return None

    def _resolve_call(self, node: ast.Call, local: Mapping[str, type]) -> type | None:
        """Return the kind of the result of a call."""
        function = node.func
        is_variable = isinstance(function, ast.Name) and function.id in local
        if not is_variable and (constructed := self.resolve(function, local)) is not None:
            return constructed
        if isinstance(function, ast.Attribute):
            if function.attr in (*_VERBS, "own") and node.args:
                return self.resolve(node.args[0], local)
            if function.attr in ("copy", "all"):
                return self.resolve(function.value, local)
        returned = getattr(self._evaluate(function), "__annotations__", {}).get("return")
        if isinstance(returned, str):
            try:
                return self.resolve(ast.parse(returned, mode="eval").body, {})
            except SyntaxError:
                return None
        return _as_kind(returned)

    def _evaluate(self, node: ast.expr) -> Any:
        """Return the value of a dotted name in the module, or `None`."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._evaluate(node.value)
            return getattr(base, node.attr, None) if isinstance(base, ModuleType | type) else None
        return None

    def _call(self, node: ast.Call, local: Mapping[str, type]) -> None:
        function = node.func
        if not isinstance(function, ast.Attribute):
            return
        receiver = ast.unparse(function.value)
        is_client = _is_client(receiver)
        if function.attr == "ensure" and _is_context(receiver) and node.args:
            for child in _elements(node.args[0]):
                self._add(node, function.attr, self.resolve(child, local), _ENSURE)
            return
        if is_client and function.attr in _POD_SUBRESOURCES:
            subresource, verb = _POD_SUBRESOURCES[function.attr]
            self._add(node, function.attr, GroupVersionKind("", "v1", "Pod"), (verb,), subresource)
            return
        applies_child = function.attr == "apply" and _is_context(receiver)
        if function.attr not in _VERBS or not node.args or not (is_client or applies_child):
            return
        verbs = _VERBS[function.attr]
        if function.attr in _READ_METHODS and _is_context(receiver) and "uncached" not in receiver:
            # The client of a context reads through an informer.
            verbs = _READ
        subresource = "status" if function.attr == "update_status" else ""
        self._add(node, function.attr, self.resolve(node.args[0], local), verbs, subresource)

    def _add(
        self,
        node: ast.Call,
        method: str,
        kind: type | GroupVersionKind | None,
        verbs: tuple[str, ...],
        subresource: str = "",
    ) -> None:
        where = f"{self.file}:{node.lineno}"
        if kind is None:
            self.found.unknown.append(where)
            return
        try:
            info = self.scheme.info_of(kind)
        except (SchemeError, UnknownKindError):
            self.found.unknown.append(where)
            return
        resource = f"{info.plural}/{subresource}" if subresource else info.plural
        text = f"{method}({info.gvk.kind})"
        self.found.calls.append(ClientCall(where, text, info.gvk.group, resource, verbs))


def _as_kind(value: object) -> type | None:
    is_kind = isinstance(value, type) and issubclass(value, MetaObject) and value.gvk is not None
    return value if is_kind and isinstance(value, type) else None


def _parts(node: ast.Subscript | ast.BinOp) -> tuple[ast.expr, ...]:
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    inner = node.slice
    return tuple(inner.elts) if isinstance(inner, ast.Tuple) else (inner,)


def _elements(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        yield from node.elts
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        yield node.elt
    else:
        yield node


def _is_client(receiver: str) -> bool:
    """Return whether an expression is a client by its name: `client`, `ctx.client.uncached`, `api_client`."""
    return any(part.partition("(")[0].lower().endswith("client") for part in receiver.split("."))


def _is_context(receiver: str) -> bool:
    return receiver.partition(".")[0] in ("ctx", "context")
