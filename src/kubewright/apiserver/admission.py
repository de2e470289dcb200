"""Admission: plug-ins that change or reject writes after authorization.

*Mutating* plug-ins run first, in order, and may change the object; if a later one changed it, earlier ones
with `reinvoke` run once more. *Validating* plug-ins see the final object, run concurrently and can only
reject it by raising an `APIError` (`Forbidden`, `Invalid`). One class can be both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kubewright.api.gvk import GroupVersionKind, GroupVersionResource

from .http.messages import WarningRecorder

if TYPE_CHECKING:
    from .authentication.user import User
    from .http.messages import HTTPRequest
    from .objects import Object
    from .resource import Resource, Version

AdmissionOperation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


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


class AdmissionPlugin:
    """Base class of plug-ins. `handles` decides, at little cost, whether a plug-in is called."""

    name = ""
    mutating = False
    validating = False
    reinvoke = False
    """Whether `mutate` runs a second time when a later plug-in changed the object."""

    final = False
    """Whether `validate` runs after all others have accepted the write, because it reserves something
    (quota)."""

    def handles(self, request: AdmissionAttributes) -> bool:
        """Whether the plug-in is called for a write."""
        return True

    def wants_reinvocation(self, request: AdmissionAttributes) -> bool:
        """Whether a plug-in with `reinvoke` runs again even if no later plug-in changed the object."""
        return False

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Change `request.object`; return whether it was changed. Raise an `APIError` to reject the write."""
        return False

    async def validate(self, request: AdmissionAttributes) -> None:
        """Raise an `APIError` to reject the write."""


class AdmissionChain:
    """The admission plug-ins of a server, in order."""

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        self.plugins: list[AdmissionPlugin] = []
        self._mutating: Sequence[AdmissionPlugin] = ()
        self._validating: Sequence[AdmissionPlugin] = ()
        self._final: Sequence[AdmissionPlugin] = ()
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
        self._mutating = tuple(plugin for plugin in self.plugins if plugin.mutating)
        validating = [plugin for plugin in self.plugins if plugin.validating]
        self._validating = tuple(plugin for plugin in validating if not plugin.final)
        self._final = tuple(plugin for plugin in validating if plugin.final)

    @property
    def enabled(self) -> bool:
        """Whether there are any plug-ins."""
        return bool(self.plugins)

    @property
    def has_mutating(self) -> bool:
        """Whether any plug-in mutates."""
        return bool(self._mutating)

    @property
    def has_validating(self) -> bool:
        """Whether any plug-in validates."""
        return bool(self._validating or self._final)

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Run the mutating plug-ins; return whether the object was changed."""
        ran: list[tuple[AdmissionPlugin, int]] = []
        changes = 0
        for plugin in self._mutating:
            if plugin.handles(request):
                changed = await plugin.mutate(request)
                changes += bool(changed)
                ran.append((plugin, changes))
        for plugin, seen in ran:
            if plugin.reinvoke and (seen < changes or plugin.wants_reinvocation(request)):
                request.reinvocation = True
                changes += bool(await plugin.mutate(request))
        return changes > 0

    async def validate(self, request: AdmissionAttributes) -> None:
        """Run the validating plug-ins concurrently; the first error, in order, is raised."""
        wanted = [plugin for plugin in self._validating if plugin.handles(request)]
        if len(wanted) == 1:
            await wanted[0].validate(request)
        elif wanted:
            results = await asyncio.gather(
                *(plugin.validate(request) for plugin in wanted), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        for plugin in self._final:
            if plugin.handles(request):
                await plugin.validate(request)
