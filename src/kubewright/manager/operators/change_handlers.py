"""Handlers for changes, as kopf has them: a thin layer on a reconciler.

    @operator.on.update(Shop)
    async def resize(shop: Shop, old: dict[str, Any], new: dict[str, Any], diff: Diff) -> None: ...

The reconciler compares the object with its last handled state and calls the handlers for the difference. The
state is stored, compressed, in a ConfigMap `last-handled-<uid>` that the object owns, after all handlers have
succeeded. Handlers are therefore called at least once for each difference: again after a failure or a restart
in the middle, and once for several changes that follow each other quickly.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from kubewright.api.encoding import codec
from kubewright.api.meta import MetaObject
from kubewright.api.objects import base_of
from kubewright.api.owners import owner_reference
from kubewright.client.patches import to_dict
from kubewright.controller.request import Result, TerminalError
from kubewright.manager.contexts.context import Context
from kubewright.manager.elections.leader_election import in_cluster_namespace

from .injection import InjectedFunction, OperatorFunction

if TYPE_CHECKING:
    from .object_functions import ObjectFunctions

F = TypeVar("F", bound=Callable[..., object])

MAX_STATE_BYTES = 900_000
"""Size limit of a compressed state; a ConfigMap can have 1 MiB."""
_MEMORY_KEY = "kubewright.change_handlers"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_encode = msgspec.json.Encoder(order="deterministic").encode

Reason = Literal["create", "update", "resume", "field"]


class DiffItem(NamedTuple):
    """One difference between two states; `path` is, for example, `("spec", "size")`."""

    operation: Literal["add", "change", "remove"]
    path: tuple[str, ...]
    old: Any
    new: Any


Diff = tuple[DiffItem, ...]


def diff_of(old: Any, new: Any, path: tuple[str, ...] = ()) -> Diff:
    """Return the differences between two states; lists are compared as a whole."""
    if old == new:
        return ()
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        return tuple(item for name in names for item in diff_of(old.get(name), new.get(name), (*path, name)))
    operation: Literal["add", "change", "remove"] = (
        "add" if old is None else "remove" if new is None else "change"
    )
    return (DiffItem(operation, path, old, new),)


def handled_state(obj: Any) -> dict[str, Any]:
    """Return the part of an object that handlers are called for: all but status and system metadata."""
    raw = base_of(obj)
    state: dict[str, Any] = dict(codec.loads(raw) if raw is not None else to_dict(obj))
    for name in ("apiVersion", "kind", "status"):
        state.pop(name, None)
    metadata = state.get("metadata") or {}
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name != _LAST_APPLIED
    }
    state["metadata"] = {"labels": metadata.get("labels") or {}, "annotations": annotations}
    return state


@dataclass(slots=True)
class _Handler:
    reason: Reason
    call: InjectedFunction
    field: tuple[str, ...] = ()


@dataclass(slots=True)
class _Progress:
    """What was handled for one object in this process."""

    handled: bytes | None
    """The last handled state, as JSON; `None` if the object was never handled."""
    is_resumed: bool
    target: bytes = b""
    done: set[int] = field(default_factory=set)
    """The handlers that have succeeded for `target`."""


class ChangeDispatcher(OperatorFunction):
    """The reconciler of a kind that calls the handlers for what changed."""

    def __init__(self, operator: ObjectFunctions, function: Callable[..., Any]) -> None:
        super().__init__(function, is_async=True)
        self._operator = operator
        self._handlers: list[_Handler] = []

    def add(self, handler: _Handler) -> None:
        """Add a handler; they are called in this order."""
        self._handlers.append(handler)
        # A plain handler needs the values for plain functions.
        self.is_async = self.is_async and handler.call.is_async

    async def __call__(self, values: Any) -> Any:
        """Call the handlers for the difference to the last handled state, and store the new state."""
        ctx: Context[Any] = values["context"]
        progress: _Progress | None = ctx.memory.get(_MEMORY_KEY)
        if progress is None:
            stored = await self._load(ctx)
            progress = ctx.memory[_MEMORY_KEY] = _Progress(stored, is_resumed=stored is None)
        new = handled_state(ctx.object)
        target = _encode(new)
        if target == progress.handled and progress.is_resumed:
            return None
        if target != progress.target:
            progress.target = target
            progress.done.clear()
        old = codec.loads(progress.handled) if progress.handled is not None else None
        result, errors = await self._call_handlers(values, progress, old, new)
        retried = [each for each in errors if not isinstance(each, TerminalError)]
        if retried:
            raise retried[0]
        if progress.handled != target:
            await self._save(ctx, target)
        progress.handled, progress.is_resumed = target, True
        progress.done.clear()
        if errors:
            raise errors[0]
        return result

    async def _call_handlers(
        self, values: Any, progress: _Progress, old: Any, new: dict[str, Any]
    ) -> tuple[Result | None, list[Exception]]:
        """Call the handlers that have not succeeded yet; return their shortest requeue and their errors."""
        result: Result | None = None
        errors: list[Exception] = []
        for number, handler in enumerate(self._handlers):
            change = _change_for(handler, old, new, progress)
            if change is None or number in progress.done:
                continue
            try:
                returned = await handler.call({**values, **change})
            except TerminalError as error:
                errors.append(error)
            except Exception as error:
                errors.append(error)
                continue
            else:
                if isinstance(returned, Result) and returned.delay:
                    result = returned if result is None or returned.delay < result.delay else result
            progress.done.add(number)
        return result, errors

    async def _load(self, ctx: Context[Any]) -> bytes | None:
        found = await ctx.client.uncached.get_or_none(
            "configmaps", _state_name(ctx), namespace=self._namespace(ctx)
        )
        if found is None:
            return None
        return zlib.decompress(b64decode(found.raw["binaryData"]["state"]))

    async def _save(self, ctx: Context[Any], state: bytes) -> None:
        compressed = zlib.compress(state)
        if len(compressed) > MAX_STATE_BYTES:
            raise TerminalError(
                f"the state of the object is too large for change handlers: {len(compressed)} bytes "
                f"compressed, the limit is {MAX_STATE_BYTES}; use @operator.reconcile"
            )
        await ctx.client.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": _state_name(ctx),
                    "namespace": self._namespace(ctx),
                    "labels": {"app.kubernetes.io/managed-by": self._operator.name},
                    "ownerReferences": [codec.to_plain(owner_reference(ctx.object))],
                },
                "binaryData": {"state": b64encode(compressed).decode()},
            },
            field_manager=f"{self._operator.name}-handlers",
            force=True,
        )

    def _namespace(self, ctx: Context[Any]) -> str:
        """Return the namespace of the state: that of the object, else that of the operator."""
        settings = self._operator.settings
        if ctx.request.namespace:
            return ctx.request.namespace
        if settings.leader_election_namespace or settings.development:
            return settings.leader_election_namespace or ctx.client.options.namespace or "default"
        return in_cluster_namespace(
            "the namespace of the operator is unknown (set leader_election_namespace)"
        )


def _state_name(ctx: Context[Any]) -> str:
    return f"last-handled-{ctx.object.metadata.uid}"


def _change_for(
    handler: _Handler, old: Any, new: dict[str, Any], progress: _Progress
) -> dict[str, Any] | None:
    """Return the arguments `old`, `new` and `diff` of a handler, or `None` if it is not called."""
    if handler.reason == "create" and old is not None:
        return None
    if handler.reason == "resume" and (old is None or progress.is_resumed):
        return None
    before: Any = old
    after: Any = new
    for name in handler.field:
        before = before.get(name) if isinstance(before, dict) else None
        after = after.get(name) if isinstance(after, dict) else None
    diff = diff_of(before, after)
    if handler.reason == "update" and (old is None or not diff):
        return None
    if handler.reason == "field" and not diff:
        return None
    return {"old": before, "new": after, "diff": diff}


class ChangeHandlers:
    """`operator.on`: decorators of change handlers. See the module for what is guaranteed."""

    def __init__(self, operator: ObjectFunctions) -> None:
        self._operator = operator
        self.dispatchers: dict[type[MetaObject] | str, ChangeDispatcher] = {}

    def create(self, kind: type[MetaObject] | str) -> Callable[[F], F]:
        """Call the function for an object that has not been handled yet."""
        return self._register(kind, "create")

    def update(self, kind: type[MetaObject] | str) -> Callable[[F], F]:
        """Call the function when an object differs from its last handled state; not for its status."""
        return self._register(kind, "update")

    def resume(self, kind: type[MetaObject] | str) -> Callable[[F], F]:
        """Call the function once per process for each object that was handled by an earlier one."""
        return self._register(kind, "resume")

    def field(self, kind: type[MetaObject] | str, path: str) -> Callable[[F], F]:
        """Call the function when a field such as `spec.size` differs; `old` and `new` are its values."""
        if not path or path.startswith("status"):
            raise ValueError(f"field({path!r}): expected the path of a field outside the status: spec.size")
        return self._register(kind, "field", tuple(path.split(".")))

    def delete(self, kind: type[MetaObject] | str, *, finalizer: str = "") -> Callable[[F], F]:
        """Call the function before an object is deleted; the same as `Operator.finalize`."""
        return self._operator.finalize(kind, finalizer=finalizer)

    def _register(
        self, kind: type[MetaObject] | str, reason: Reason, path: tuple[str, ...] = ()
    ) -> Callable[[F], F]:
        gvk = getattr(kind, "gvk", None)
        if kind == "secrets" or (gvk is not None and gvk.group_kind == ("", "Secret")):
            raise TypeError(
                f"on.{reason}(Secret): the last handled state would be stored in a ConfigMap; "
                "use @operator.reconcile"
            )

        def register(function: F) -> F:
            call = self._operator.change_function(kind, function, f"{reason} handler")
            dispatcher = self.dispatchers.get(kind)
            if dispatcher is None:
                dispatcher = self.dispatchers[kind] = ChangeDispatcher(self._operator, function)
                self._operator.add_dispatcher(kind, dispatcher)
            dispatcher.add(_Handler(reason, call, path))
            return function

        return register
