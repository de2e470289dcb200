"""Admission: plug-ins that change or reject writes after authorization.

*Mutating* plug-ins run first, in order, and may change the object; if a later one changed it, earlier ones
with `reinvoke` run once more. *Validating* plug-ins see the final object, run concurrently and can only
reject it by raising an `APIError` (`Forbidden`, `Invalid`). One class can be both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from kubewright.api.gvk import GroupVersionKind, GroupVersionResource

from .http.messages import WarningRecorder

if TYPE_CHECKING:
    from .authentication.user import User
    from .http.messages import HTTPRequest
    from .metrics.admission import AdmissionMetrics, AdmissionStep
    from .resources.objects import Object
    from .resources.resource import Resource, Version

_T = TypeVar("_T")
AdmissionOperation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
_SELECTIONS: Final = 1024
"""Operations on resources whose plug-ins are remembered."""


@dataclass(slots=True)
class AdmissionAttributes:
    """A write as admission plug-ins see it. Objects are in the requested version."""

    operation: AdmissionOperation
    user: User
    resource: GroupVersionResource
    subresource: str
    kind: GroupVersionKind
    namespace: str
    name: str
    """The name in the URL or, for creates, in the object; empty until a generated name is known."""
    object: Object | None
    """The new object; `None` for DELETE; the options for CONNECT. Mutating plug-ins change or replace it."""
    old_object: Object | None
    options: Object | None
    """CreateOptions, UpdateOptions or DeleteOptions, also for PATCH; `None` for CONNECT."""
    dry_run: bool
    definition: Resource | None
    """The declaration of the kind of the objects, for plug-ins that need other versions of it; `None` for
    the own kinds of subresources (Scale, Binding)."""
    version: Version | None
    served_resource: Resource | None = None
    """The declaration of the resource in the URL, whatever the kind of the objects."""
    warnings: WarningRecorder = field(default_factory=WarningRecorder)
    request: HTTPRequest | None = None
    audit_annotations: dict[str, str] = field(default_factory=dict)
    convert: Callable[[Object, str], Awaitable[Object]] | None = None
    """Converts an object of this resource to another version."""
    renew: Callable[[Object], None] | None = None
    """Prunes and defaults an object that a webhook has patched."""
    reinvocation: bool = False
    """Whether plug-ins are called for the second time."""
    state: dict[Any, Any] = field(default_factory=dict)
    """State that plug-ins share between the calls of one request."""
    on_finish: Callable[[Callable[[], Any]], None] | None = None
    """Registers a function that is called when the write has been stored or has failed."""

    def warn(self, text: str) -> None:
        """Add a `Warning` header, once."""
        if text:
            self.warnings.add(text)


class AdmissionRule(NamedTuple):
    """Writes that a plug-in handles, in the notation of webhook configurations."""

    operations: tuple[AdmissionOperation, ...]
    group: str
    """API group; `*` for all."""
    resources: tuple[str, ...]
    """`pods`, `pods/status`, `pods/*` (all subresources), `*` (all resources), `*/*` (subresources too)."""

    def matches(self, operation: AdmissionOperation, group: str, resource: str, subresource: str) -> bool:
        """Whether a write is handled."""
        if operation not in self.operations or self.group not in ("*", group):
            return False
        if "*/*" in self.resources:
            return True
        if subresource:
            return f"{resource}/{subresource}" in self.resources or f"{resource}/*" in self.resources
        return resource in self.resources or "*" in self.resources


class AdmissionPlugin:
    """Base class of plug-ins. It is called for writes of its `rules` for which `handles` returns true."""

    name = ""
    rules: tuple[AdmissionRule, ...] | None = None
    """The writes that it handles, by operation and resource; `None`: all."""
    mutating = False
    validating = False
    reinvoke = False
    """Whether `mutate` runs a second time when a later plug-in changed the object."""

    final = False
    """Whether `validate` runs after all others have accepted the write, because it reserves something
    (quota)."""

    def handles(self, request: AdmissionAttributes) -> bool:
        """Whether the plug-in is called for a write of its rules; at little cost."""
        return True

    def wants_reinvocation(self, request: AdmissionAttributes) -> bool:
        """Whether a plug-in with `reinvoke` runs again even if no later plug-in changed the object."""
        return False

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Change `request.object`; return whether it was changed. Raise an `APIError` to reject the write."""
        return False

    async def validate(self, request: AdmissionAttributes) -> None:
        """Raise an `APIError` to reject the write."""


class _Selection(NamedTuple):
    """The plug-ins whose rules match a write."""

    mutating: tuple[AdmissionPlugin, ...]
    validating: tuple[AdmissionPlugin, ...]
    final: tuple[AdmissionPlugin, ...]


class AdmissionChain:
    """The admission plug-ins of a server, in order."""

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        self.plugins: list[AdmissionPlugin] = []
        self.metrics: AdmissionMetrics | None = None
        """Counts the calls."""
        self._select: Callable[..., _Selection] = self._selection
        for plugin in plugins:
            self.add(plugin)

    def add(self, plugin: AdmissionPlugin, *, before: str = "") -> None:
        """Append a plug-in, or insert it before another one."""
        names = [each.name for each in self.plugins]
        self.plugins.insert(names.index(before) if before in names else len(names), plugin)
        self._sort()

    def remove(self, name: str) -> None:
        """Remove the plug-ins of a name."""
        self.plugins = [plugin for plugin in self.plugins if plugin.name != name]
        self._sort()

    def _sort(self) -> None:
        self._select = lru_cache(_SELECTIONS)(self._selection)

    def _selection(self, *write: Any) -> _Selection:
        """Return the plug-ins for an operation, group, resource and subresource."""
        wanted = [
            plugin
            for plugin in self.plugins
            if plugin.rules is None or any(rule.matches(*write) for rule in plugin.rules)
        ]
        return _Selection(
            tuple(plugin for plugin in wanted if plugin.mutating),
            tuple(plugin for plugin in wanted if plugin.validating and not plugin.final),
            tuple(plugin for plugin in wanted if plugin.validating and plugin.final),
        )

    def _selected(self, request: AdmissionAttributes) -> _Selection:
        resource = request.resource
        return self._select(request.operation, resource.group, resource.resource, request.subresource)

    @property
    def enabled(self) -> bool:
        """Whether there are any plug-ins."""
        return bool(self.plugins)

    @property
    def has_mutating(self) -> bool:
        """Whether any plug-in mutates."""
        return any(plugin.mutating for plugin in self.plugins)

    @property
    def has_validating(self) -> bool:
        """Whether any plug-in validates."""
        return any(plugin.validating for plugin in self.plugins)

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Run the mutating plug-ins; return whether the object was changed."""
        started, rejected = perf_counter(), True
        try:
            changed = await self._mutate(request)
            rejected = False
            return changed
        finally:
            if self.metrics is not None:
                elapsed = perf_counter() - started
                self.metrics.observe_step(request.operation, "admit", elapsed, rejected=rejected)

    async def _mutate(self, request: AdmissionAttributes) -> bool:
        ran: list[tuple[AdmissionPlugin, int]] = []
        changes = 0
        for plugin in self._selected(request).mutating:
            if plugin.handles(request):
                changed = await self._timed(plugin, request, "admit", plugin.mutate(request))
                changes += bool(changed)
                ran.append((plugin, changes))
        for plugin, seen in ran:
            if plugin.reinvoke and (seen < changes or plugin.wants_reinvocation(request)):
                request.reinvocation = True
                changes += bool(await self._timed(plugin, request, "admit", plugin.mutate(request)))
        return changes > 0

    async def validate(self, request: AdmissionAttributes) -> None:
        """Run the validating plug-ins concurrently; the first error, in order, is raised."""
        started, rejected = perf_counter(), True
        try:
            await self._validate(request)
            rejected = False
        finally:
            if self.metrics is not None:
                elapsed = perf_counter() - started
                self.metrics.observe_step(request.operation, "validate", elapsed, rejected=rejected)

    async def _validate(self, request: AdmissionAttributes) -> None:
        selected = self._selected(request)
        wanted = [plugin for plugin in selected.validating if plugin.handles(request)]
        if len(wanted) == 1:
            await self._timed(wanted[0], request, "validate", wanted[0].validate(request))
        elif wanted:
            results = await asyncio.gather(
                *(self._timed(each, request, "validate", each.validate(request)) for each in wanted),
                return_exceptions=True,
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        for plugin in selected.final:
            if plugin.handles(request):
                await self._timed(plugin, request, "validate", plugin.validate(request))

    async def _timed(
        self, plugin: AdmissionPlugin, request: AdmissionAttributes, step: AdmissionStep, call: Awaitable[_T]
    ) -> _T:
        """Await a call of a plug-in, and count it."""
        if self.metrics is None:
            return await call
        started, rejected = perf_counter(), True
        try:
            result = await call
            rejected = False
            return result
        finally:
            elapsed = perf_counter() - started
            self.metrics.observe_plugin(plugin.name, request.operation, step, elapsed, rejected=rejected)
