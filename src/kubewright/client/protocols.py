"""Protocols to write code against: `Reader`, `Writer` and both, `ReaderWriter`.

`Client` and `CachedClient` implement all of them, `Cache` implements `Reader`. A function that only reads can
declare `reader: Reader` and be called with any of these, or with an implementation of a test.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, Unpack, overload

from kubewright.api.meta import MetaObject
from kubewright.api.unstructured import Unstructured

from .arguments import ApplyArguments, DeleteArguments, PatchArguments, WriteArguments
from .kind_types import KindOf, ObjectT
from .listwatch.pager import ListPager
from .patches import Patch
from .selectors import Fields, Labels

WritableT = TypeVar("WritableT", bound=MetaObject | Unstructured | dict[str, Any])


class Reader(Protocol):
    """Get and list objects."""

    @overload
    async def get(self, kind: KindOf[ObjectT], name: str, *, namespace: str | None = None) -> ObjectT: ...
    @overload
    async def get(self, kind: str, name: str, *, namespace: str | None = None) -> Unstructured: ...

    @overload
    async def get_or_none(
        self, kind: KindOf[ObjectT], name: str, *, namespace: str | None = None
    ) -> ObjectT | None: ...
    @overload
    async def get_or_none(
        self, kind: str, name: str, *, namespace: str | None = None
    ) -> Unstructured | None: ...

    @overload
    def list(
        self,
        kind: KindOf[ObjectT],
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
    ) -> ListPager[ObjectT]: ...
    @overload
    def list(
        self,
        kind: str,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
    ) -> ListPager[Unstructured]: ...


class Writer(Protocol):
    """Create, change and delete objects."""

    async def create(
        self, obj: WritableT, *, namespace: str | None = None, **arguments: Unpack[WriteArguments]
    ) -> WritableT:
        """Create an object."""

    async def update(self, obj: WritableT, **arguments: Unpack[WriteArguments]) -> WritableT:
        """Send the changes since the object was read."""

    async def update_status(self, obj: WritableT, **arguments: Unpack[WriteArguments]) -> WritableT:
        """Send the changes of the status."""

    @overload
    async def patch(
        self, target: KindOf[ObjectT], name: str, patch: Patch, **arguments: Unpack[PatchArguments]
    ) -> ObjectT: ...
    @overload
    async def patch(
        self, target: str, name: str, patch: Patch, **arguments: Unpack[PatchArguments]
    ) -> Unstructured: ...
    @overload
    async def patch(
        self, target: WritableT, patch: Patch | None = None, **arguments: Unpack[PatchArguments]
    ) -> WritableT: ...

    async def apply(self, obj: WritableT, **arguments: Unpack[ApplyArguments]) -> WritableT:
        """Server-side apply an object."""

    @overload
    async def delete(
        self,
        target: KindOf[ObjectT] | ObjectT,
        name: str | None = None,
        **arguments: Unpack[DeleteArguments],
    ) -> ObjectT | None: ...
    @overload
    async def delete(
        self,
        target: str | dict[str, Any],
        name: str | None = None,
        **arguments: Unpack[DeleteArguments],
    ) -> Unstructured | None: ...


class ReaderWriter(Reader, Writer, Protocol):
    """Read and write objects."""
