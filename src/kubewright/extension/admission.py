"""Admission plug-in that calls the admission functions of an `APIServerApp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import internal_error, invalid
from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin
from kubewright.apiserver.resources.objects import Object
from kubewright.webhook.review import Denied

from .functions import (
    Admission,
    DeclaredFunction,
    copy_changes,
    decode,
    field_errors,
    rejection,
    with_user,
)


class DeclaredAdmission(AdmissionPlugin):
    """Calls admission functions; objects are converted to the version that a function takes."""

    reinvoke = True

    def __init__(self, name: str, functions: Sequence[Admission], values: Mapping[str, Any]) -> None:
        self.name = name
        self.mutating = any(each.mutating for each in functions)
        self.validating = any(not each.mutating for each in functions)
        self._values = values
        self._functions: dict[tuple[str, str], list[Admission]] = {}
        for each in functions:
            gvk = each.function.kind.gvk
            assert gvk is not None
            self._functions.setdefault((gvk.group, gvk.kind), []).append(each)

    def handles(self, request: AdmissionAttributes) -> bool:
        """Whether there are functions for the kind of the request."""
        return not request.subresource and (request.kind.group, request.kind.kind) in self._functions

    def _wanted(self, request: AdmissionAttributes, *, mutating: bool) -> list[Admission]:
        return [
            each
            for each in self._functions[request.kind.group, request.kind.kind]
            if each.mutating is mutating and request.operation in each.operations
        ]

    async def mutate(self, request: AdmissionAttributes) -> bool:
        """Call the mutating functions; return whether one has changed the object."""
        changed = False
        for each in self._wanted(request, mutating=True):
            changed |= await self._mutate(each.function, request)
        return changed

    async def _mutate(self, function: DeclaredFunction, request: AdmissionAttributes) -> bool:
        assert request.object is not None
        plain = await _in_version(request, request.object, function.version)
        typed, old = decode(plain, function.kind), await self._old(function, request)
        if typed is None:  # Schema validation follows and has a better message.
            return False
        before = to_plain(typed)
        await self._call(function, (typed, old), request)
        if not copy_changes(before, typed, plain):
            return False
        if plain is not request.object:
            assert request.convert is not None
            plain = await request.convert(plain, request.kind.version)
        request.object = plain
        return True

    async def validate(self, request: AdmissionAttributes) -> None:
        """Call the validating functions; the first rejection is raised."""
        for each in self._wanted(request, mutating=False):
            function = each.function
            new = None
            if request.object is not None:
                new = decode(await _in_version(request, request.object, function.version), function.kind)
                if new is None:
                    raise internal_error(f"the object does not match the class {function.kind.__name__}")
            old = await self._old(function, request)
            objects = (new, old) if new is not None or function.objects > 1 else (old,)
            errors = field_errors(await self._call(function, objects, request), function)
            if errors:
                raise invalid(request.kind.group_kind, request.name, errors)

    async def _old(self, function: DeclaredFunction, request: AdmissionAttributes) -> Any:
        if request.old_object is None:
            return None
        return decode(await _in_version(request, request.old_object, function.version), function.kind)

    async def _call(
        self, function: DeclaredFunction, objects: tuple[Any, ...], request: AdmissionAttributes
    ) -> Any:
        values = {**with_user(self._values, request.user), "request": request}
        try:
            return await function(objects, values)
        except Denied as denied:
            kind, resource = request.kind.group_kind, request.resource.group_resource
            raise rejection(denied, kind, resource, request.name) from None


async def _in_version(request: AdmissionAttributes, obj: Object, version: str) -> Object:
    """Return an object of the request in a version; the same object if it has that version."""
    if request.kind.version == version or request.convert is None:
        return obj
    return await request.convert(dict(obj), version)
