"""Admission: the last word about a write, after authorization.

Plug-ins come in two kinds, and one class may be both. *Mutating* ones run first, in order, and may change the
object; if one that runs later changed it, earlier ones that ask for it are run once more (`reinvoke`).
*Validating* ones see the final object, all at once, and may only refuse: raise an `APIError`
(`Forbidden`, `Invalid`...) to do so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kubewright.api.gvk import GroupVersionKind, GroupVersionResource

if TYPE_CHECKING:
    from .authentication.user import User
    from .http.messages import HTTPRequest
    from .objects import Object
    from .resource import Resource, Version

AdmissionOperation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class AdmissionAttributes:
    """What admission plug-ins see. Objects are in the requested version."""

    operation: AdmissionOperation
    user: User
    resource: GroupVersionResource
    subresource: str
    kind: GroupVersionKind
    namespace: str
    name: str
    """Empty while a generated name is outstanding."""
    object: Object | None
    """The new object; `None` on DELETE; the options on CONNECT. Mutating plug-ins change it in place or
    replace it."""
    old_object: Object | None
    options: Object
    dry_run: bool
    definition: Resource | None
    """The declaration of the resource, for plug-ins that need other versions of it."""
    version: Version | None
    warnings: list[str] = field(default_factory=list)
    request: HTTPRequest | None = None
    audit_annotations: dict[str, str] = field(default_factory=dict)
    convert: Callable[[Object, str], Awaitable[Object]] | None = None
    """Converts an object of this resource to another version."""
    renew: Callable[[Object], None] | None = None
    """Prunes and defaults an object that came back from outside (a webhook's patch)."""
    reinvocation: bool = False
    """Whether this is the second round."""
    state: dict[Any, Any] = field(default_factory=dict)
    """Scratch space that plug-ins share between the rounds of one request."""

    def warn(self, text: str) -> None:
        """Send a `Warning` header, once."""
        if text and text not in self.warnings:
            self.warnings.append(text)


class AdmissionPlugin:
    """Base of plug-ins. `name` identifies it; `handles` says cheaply whether it wants to see a request."""

    name = ""
    mutating = False
    validating = False
    reinvoke = False
    """Whether `mutate` runs a second time when a later plug-in changed the object."""

    final = False
    """Whether `validate` waits until all others have agreed: it takes what would have to be given back."""

    def handles(self, request: AdmissionAttributes) -> bool:
        """Whether this plug-in has anything to say about the request."""
        return True

    def wants_reinvocation(self, request: AdmissionAttributes) -> bool:
        """Whether a plug-in that may be reinvoked asks for it itself, whatever later ones did."""
        return False

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Change `request.object`; return whether it was changed. Raise an `APIError` to refuse."""
        return False

    async def validate(self, request: AdmissionAttributes) -> None:
        """Raise an `APIError` to refuse."""


class AdmissionChain:
    """The plug-ins of a server, in order."""

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        self.plugins: list[AdmissionPlugin] = []
        self._mutating: Sequence[AdmissionPlugin] = ()
        self._validating: Sequence[AdmissionPlugin] = ()
        self._final: Sequence[AdmissionPlugin] = ()
        for plugin in plugins:
            self.add(plugin)

    def add(self, plugin: AdmissionPlugin, *, before: str = "") -> None:
        """Append a plug-in, or put it before the one named."""
        names = [each.name for each in self.plugins]
        self.plugins.insert(names.index(before) if before in names else len(names), plugin)
        self._sort()

    def remove(self, name: str) -> None:
        """Take out the plug-ins of that name."""
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
        """Run the mutating plug-ins; returns whether the object was changed."""
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
        """Run the validating plug-ins at once; the first refusal, in order, wins."""
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
