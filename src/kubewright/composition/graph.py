"""`Graph`: desired objects, and the order in which they are applied.

    graph = Graph()
    graph.add("credentials", Secret(...))
    graph.add("database", StatefulSet(...), after=("credentials",))

    @graph.node
    def config(database: StatefulSet, credentials: Secret) -> ConfigMap:
        return ConfigMap(..., data={"host": database.spec.service_name})

    if app.spec.autoscaling:
        graph.add("autoscaler", lambda web: autoscaler_for(app, web))

A node is an object, a list of objects, or a function that returns one of them. **The parameters of a function
name the nodes that it depends on**, as the parameters of a test name its fixtures in pytest: the function is
called when these nodes are ready, with their objects as the API server returned them, so fields that the
server or a controller sets (an allocated address, a status) are ordinary typed attributes. `after` adds a
dependency without a parameter. A parameter with a default is not a dependency.

Why functions and not references such as `database.status.address`: a reference stands for a value that does
not exist yet, so it can be neither compared nor formatted nor checked by mypy, and needs its own expression
language as soon as two fields are combined. A function has types, uses the whole of Python, and is tested by
calling it. Conditions and loops need no API either: they are `if` and `for` in the function that builds the
graph.

A graph is checked when it is used: `GraphError` for a name that is not in the graph, a cycle, a parameter of
another type. In a test no cluster is needed:

    graph = compose(app)
    assert graph.order() == ["credentials", "database", "config"]
    config = graph.build("config", database=StatefulSet(...), credentials=Secret(...))
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

DesiredObject = MetaObject | Unstructured | dict[str, Any]
Desired = DesiredObject | Sequence[DesiredObject]
"""The objects of a node: one, or a list."""
ReadyTest = Callable[[Any], bool | str]
"""Whether an observed object is ready, or the reason why not."""


@dataclass(frozen=True)
class ExternalObject:
    """An object that is read and not applied."""

    kind: type[MetaObject] | GroupVersionKind
    name: str
    namespace: str | None = None
    """By default the namespace of the owner."""


F = TypeVar("F", bound=Callable[..., Desired])
StatusF = TypeVar("StatusF", bound=Callable[..., None])

_NAME: Final = re.compile(r"[A-Za-z]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?")


class GraphError(ValueError):
    """A graph has a name that is not defined, a cycle, or a parameter of another type."""


class NotReady(Exception):
    """Raised by the function of a node if a value that it needs is not set yet; the node waits.

    The message says what is awaited: `raise NotReady("the load balancer has no address")`.
    """


@dataclass(frozen=True)
class GraphNode:
    """Objects with the same place in the order."""

    name: str
    desired: Desired | ExternalObject | Callable[..., Desired | ExternalObject]
    parameters: tuple[str, ...] = ()
    """Parameters of the function, which name other nodes."""
    after: tuple[str, ...] = ()
    """Further nodes that must be ready before."""
    ready: ReadyTest | None = None

    @property
    def kind(self) -> type | None:
        """The class of the object, if it is known before the function is called."""
        if isinstance(self.desired, ExternalObject):
            return self.desired.kind if isinstance(self.desired.kind, type) else None
        if not callable(self.desired):
            return type(self.desired)
        found = getattr(self.desired, "__annotations__", {}).get("return")
        return found if isinstance(found, type) else None


class Graph:
    """Desired objects by name, with their dependencies."""

    def __init__(self) -> None:
        self.nodes: dict[str, GraphNode] = {}
        """All nodes in the order in which they were added."""
        self.status_functions: list[tuple[Callable[..., None], tuple[str, ...]]] = []
        self._dependencies: dict[str, dict[str, None]] | None = None

    def add(
        self,
        name: str,
        desired: Desired | ExternalObject | Callable[..., Desired | ExternalObject],
        *,
        after: Iterable[str] = (),
        ready: ReadyTest | None = None,
        parameters: Sequence[str] | None = None,
    ) -> None:
        """Add a node: an object, a list of objects, or a function of other nodes that returns them.

        `after` names nodes that must be ready before. `ready` replaces the rules of
        `kubewright.client.readiness` for this node: it returns whether an observed object is ready, or the
        reason why it is not. `parameters` are those of a function with `**` parameters.
        """
        if not _NAME.fullmatch(name):
            raise GraphError(
                f"{name!r} is not a name of a node: expected a letter, then letters, digits, - and _, "
                "at most 63 characters"
            )
        if name in self.nodes:
            raise GraphError(f"the graph has two nodes with the name {name!r}")
        if isinstance(after, str):
            raise TypeError(f'node {name!r}: after takes a sequence of names: after=("{after}",)')
        if parameters is None:
            parameters = _parameters(desired, f"node {name!r}") if callable(desired) else ()
        self.nodes[name] = GraphNode(name, desired, tuple(parameters), tuple(after), ready)
        self._dependencies = None

    def read(
        self,
        name: str,
        kind: type[MetaObject] | GroupVersionKind,
        object_name: str,
        *,
        namespace: str | None = None,
        ready: ReadyTest | None = None,
    ) -> None:
        """Add a node for an existing object of another owner, which is read and watched but not changed.

        Nodes that depend on it wait until it exists and is ready. Its kind must be in `reads` of the
        composition.
        """
        self.add(name, ExternalObject(kind, object_name, namespace), ready=ready)

    @overload
    def node(self, function: F, /) -> F: ...
    @overload
    def node(
        self, /, *, name: str = "", after: Iterable[str] = (), ready: ReadyTest | None = None
    ) -> Callable[[F], F]: ...
    def node(
        self,
        function: Callable[..., Desired] | None = None,
        /,
        *,
        name: str = "",
        after: Iterable[str] = (),
        ready: ReadyTest | None = None,
    ) -> Any:
        """Add the decorated function as a node, by default with its own name; options are those of `add`."""

        def register(function: Callable[..., Desired]) -> Callable[..., Desired]:
            self.add(name or _name(function), function, after=after, ready=ready)
            return function

        return register if function is None else register(function)

    def status(self, function: StatusF) -> StatusF:
        """Call a function that sets fields of the status of the owner, when its nodes exist.

        Its parameters are those of a node; the nodes need not be ready.
        """
        self.status_functions.append((function, _parameters(function, f"status function {_name(function)}")))
        return function

    def order(self) -> list[str]:
        """Return the names of all nodes, each after its dependencies; raise `GraphError` for a cycle."""
        dependencies = self._resolve()
        found: dict[str, None] = {}
        pending: list[str] = []

        def visit(name: str) -> None:
            if name in found:
                return
            if name in pending:
                cycle = " -> ".join((*pending[pending.index(name) :], name))
                raise GraphError(f"the graph has a cycle: {cycle}")
            pending.append(name)
            for each in dependencies[name]:
                visit(each)
            pending.pop()
            found[name] = None

        for name in self.nodes:
            visit(name)
        return list(found)

    def dependencies_of(self, name: str) -> list[str]:
        """Return the nodes that must be ready before this one."""
        return list(self._resolve()[name])

    def build(self, name: str, /, **observed: Any) -> Any:
        """Return the desired objects of a node: its object, or what its function returns for these objects.

        `observed` are the objects of the nodes that the function depends on.
        """
        node = self.nodes[name]
        if not callable(node.desired):
            return node.desired
        missing = [each for each in node.parameters if each not in observed]
        if missing:
            raise TypeError(f"node {name!r} depends on {', '.join(missing)}")
        return node.desired(**{each: observed[each] for each in node.parameters})

    def build_objects(
        self, name: str, observed: Mapping[str, Any]
    ) -> tuple[list[DesiredObject | ExternalObject], bool]:
        """Return the desired objects of a node, and whether it is a list, from the objects of all nodes."""
        node = self.nodes[name]
        arguments = {each: observed[self._find(each, name)] for each in node.parameters}
        built = self.build(name, **arguments)
        is_list = isinstance(built, list | tuple)
        objects = list(built) if is_list else [built]
        for each in objects:
            if not isinstance(each, MetaObject | Unstructured | dict | ExternalObject):
                raise GraphError(
                    f"node {name!r} is a {type(each).__name__}; expected an object, a dict, or a list of them"
                )
        return objects, is_list

    def status_arguments(
        self, parameters: Sequence[str], observed: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return the arguments of a status function, or `None` if an object does not exist yet."""
        nodes = {each: self._find(each, "status") for each in parameters}
        if any(observed.get(node) is None for node in nodes.values()):
            return None
        return {each: observed[node] for each, node in nodes.items()}

    def read_nodes(self) -> set[str]:
        """Return the nodes whose objects a function receives."""
        found = {self._find(each, node.name) for node in self.nodes.values() for each in node.parameters}
        for _, parameters in self.status_functions:
            found.update(self._find(each, "status") for each in parameters)
        return found

    def _resolve(self) -> dict[str, dict[str, None]]:
        if self._dependencies is None:
            dependencies = {}
            for node in self.nodes.values():
                named = [self._find(each, node.name) for each in (*node.parameters, *node.after)]
                dependencies[node.name] = dict.fromkeys(named)
                self._check_types(node)
            for _, parameters in self.status_functions:
                for each in parameters:
                    self._find(each, "status")
            self._dependencies = dependencies
        return self._dependencies

    def _find(self, reference: str, user: str) -> str:
        """Return the node that a parameter or `after` names; a parameter has underscores for dashes."""
        if reference in self.nodes:
            return reference
        found = [name for name in self.nodes if name.replace("-", "_") == reference]
        if len(found) == 1:
            return found[0]
        close = difflib.get_close_matches(reference, self.nodes, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"its nodes are: {', '.join(self.nodes)}"
        raise GraphError(f"node {user!r} depends on {reference!r}, which is not in the graph; {hint}")

    def _check_types(self, node: GraphNode) -> None:
        """Raise a `GraphError` for a parameter whose annotation is another class than that of the node."""
        annotations = getattr(node.desired, "__annotations__", {}) if callable(node.desired) else {}
        for parameter in node.parameters:
            expected = annotations.get(parameter)
            name = expected.__name__ if isinstance(expected, type) else str(expected or "")
            kind = self.nodes[self._find(parameter, node.name)].kind
            if kind is None or not issubclass(kind, MetaObject) or not name.isidentifier() or name == "Any":
                continue
            if all(each.__name__ != name for each in kind.__mro__):
                raise GraphError(
                    f"node {node.name!r} takes {parameter} as {name}, but that node is of the kind "
                    f"{kind.__name__}"
                )


def _parameters(function: Callable[..., object], subject: str) -> tuple[str, ...]:
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise GraphError(f"{subject}: parameter {parameter.name!r} must be a named parameter")
        found.append(parameter.name)
    return tuple(found)


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", repr(function))
