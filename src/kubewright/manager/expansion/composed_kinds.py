"""Kinds whose objects expand to a graph of other objects: the controller behind `Operator.compose`.

For each object the function of the composition is called, and its graph is applied (`GraphSets`). The status
is that of `set_status`; `objects`, if the class has it (`CompositionStatus`), lists the state of each object.
If the graph is not valid, nothing is applied, and the next attempt follows the next change of the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kubewright.api.declaring.declarations import Rbac
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.meta import MetaObject
from kubewright.api.owners import OwnerError
from kubewright.api.scheme import Scheme
from kubewright.cache import Cache
from kubewright.client import Client
from kubewright.client.membership import FieldManager
from kubewright.composition.graph import Graph, GraphError
from kubewright.composition.graph_sets import GraphResult, GraphSets
from kubewright.composition.status import ComposedObject
from kubewright.controller.request import Result
from kubewright.manager.contexts.context import OWNERSHIP_CONFLICT, Context
from kubewright.manager.operators.injection import InjectedFunction, OperatorFunction, describe

from .rendered_kinds import rule_for_members
from .set_status import SetState, delete_members, has_field, is_new, record_changes, report, shortened

if TYPE_CHECKING:
    from kubewright.composition.template import CompositionTemplate


class ComposedKind(OperatorFunction):
    """The reconciler and the finalizer of a kind with a composition."""

    def __init__(
        self,
        function: InjectedFunction,
        owns: Sequence[type[MetaObject] | GroupVersionKind],
        reads: Sequence[type[MetaObject] | GroupVersionKind] = (),
    ) -> None:
        """`function` returns the graph; `owns` and `reads` are the kinds of its objects."""
        super().__init__(function.function, is_async=function.is_async, parameters=function.parameters)
        self._compose = function
        self._owns, self._reads = tuple(owns), tuple(reads)

    def sets(self, client: Client, cache: Cache, field_manager: FieldManager) -> GraphSets:
        """Return what applies the graphs of all objects of the kind."""
        return GraphSets(client, cache, owns=self._owns, reads=self._reads, field_manager=field_manager)

    def rules(self, scheme: Scheme) -> Iterable[tuple[Rbac, bool]]:
        """Return the permissions for the kinds of the graph, and whether each is for a namespaced kind."""
        for kind in self._owns:
            yield rule_for_members(scheme, scheme.gvk_of(kind) if isinstance(kind, type) else kind)
        for kind in self._reads:
            gvk = scheme.gvk_of(kind) if isinstance(kind, type) else kind
            yield rule_for_members(scheme, gvk, ("get", "list", "watch"))

    async def __call__(self, values: Any) -> Result | None:
        """Apply the graph of an object and report its state."""
        ctx: Context[Any] = values["context"]
        generation = ctx.object.metadata.generation
        sets = ctx.desired
        assert isinstance(sets, GraphSets)
        try:
            graph = await self._compose(values)
            if not isinstance(graph, Graph):
                raise GraphError(
                    f"{describe(self.function)} returned {type(graph).__name__}; a composition returns a "
                    "Graph"
                )
            result = await sets.apply(ctx.object, graph)
        except GraphError as error:
            await _report_invalid(ctx, error, generation)
            return None
        except Exception as error:
            await report(ctx, SetState("ComposeFailed", _describe(error), is_degraded=True), generation)
            raise
        record_changes(ctx, result.changes.applied, result.changes.deleted)
        ctx.report_conflicts(result.changes)
        for function, parameters in graph.status_functions:
            arguments = graph.status_arguments(parameters, result.observed)
            if arguments is not None:
                function(**arguments)
        _set_objects(ctx, result)
        await report(ctx, _state_of(result, ctx.request.namespace), generation)
        for each in result.errors:
            if isinstance(each, OwnerError):
                ctx.event("Warning", OWNERSHIP_CONFLICT, str(each))
            if not isinstance(each, GraphError):
                raise each
        return None

    async def finalize(self, ctx: Context[Any]) -> Result | None:
        """Delete all objects of the set, dependent ones first, before the object itself."""
        return await delete_members(ctx)


def template_function(kind: type[MetaObject], template: CompositionTemplate) -> Callable[..., object]:
    """Return the function of a composition that evaluates a template."""

    async def compose(obj: Any) -> Graph:
        return template.graph(obj)

    compose.__annotations__ = {"obj": kind, "return": Graph}
    compose.__qualname__ = f"composition of {kind.__name__}"
    return compose


async def _report_invalid(ctx: Context[Any], error: GraphError, generation: int | None) -> None:
    state = SetState("InvalidGraph", str(error), is_degraded=True)
    if is_new(ctx, state):
        ctx.event("Warning", state.reason, shortened(state.message))
        ctx.log.warning("invalid graph", extra={"error": str(error)})
    await report(ctx, state, generation)


def _describe(error: Exception) -> str:
    """Return a message with the type of the error, unless it is one of the API server or of ownership."""
    text = str(error)
    if isinstance(error, GraphError | OwnerError) or hasattr(error, "reason"):
        return text
    return f"{type(error).__name__}: {text}"


def _set_objects(ctx: Context[Any], result: GraphResult) -> None:
    status: Any = getattr(ctx.object, "status", None)
    if not has_field(status, "objects"):
        return
    home, found = ctx.request.namespace, []
    for state in result.states:
        if state.waiting:
            found.append(ComposedObject(node=state.name, state="Waiting", message=shortened(state.waiting)))
        for gvk, key, readiness in state.members:
            found.append(
                ComposedObject(
                    node=state.name,
                    state=readiness.state,
                    kind=gvk.kind,
                    name=key.name,
                    namespace=key.namespace if key.namespace not in ("", home) else None,
                    message=shortened(readiness.message) or None,
                )
            )
        if state.error is not None:
            message = shortened(_describe(state.error))
            found.append(ComposedObject(node=state.name, state="Failed", message=message))
    status.objects = found


def _state_of(result: GraphResult, home: str) -> SetState:
    failed, waiting, count = [], [], 0
    for state in result.states:
        if state.error is not None:
            failed.append(f"{state.name}: {_describe(state.error)}")
        if state.waiting:
            waiting.append(f"{state.name}: {state.waiting}")
        for gvk, key, readiness in state.members:
            count += 1
            if not readiness.is_ready:
                name = key.name if key.namespace in ("", home) else str(key)
                (failed if readiness.is_failed else waiting).append(f"{gvk.kind} {name}: {readiness.message}")
    if not failed and not waiting:
        return SetState.ready(count)
    reason = "ApplyFailed" if result.errors else "ObjectFailed" if failed else "ObjectsNotReady"
    message = "; ".join((*failed, *waiting))
    return SetState(reason, message, is_progressing=bool(waiting), is_degraded=bool(failed))
