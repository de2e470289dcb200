"""What the API server may return in another form: lists in pages, objects in another version.

- `Pages`: a list with a limit returns one object at a time; the state ends as in the reference run
- `Versions`: what is applied in one served version can be read in it, and an object that is read and updated
  unchanged in another version stays as it was
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionKind

from .history import leaves
from .probe import Probe
from .variation import Variation

if TYPE_CHECKING:
    from kubewright.explore.state import StateObject


class Pages(Variation):
    """Return lists with a limit in pages of one object."""

    name = "pages"

    async def begin(self, probe: Probe) -> None:
        """Limit the pages."""
        probe.run.cluster.page_size = 1

    async def finish(self, probe: Probe) -> None:
        """Compare with the reference run."""
        if not await probe.settle():
            return
        found = await probe.differences_from_reference()
        if found:
            probe.find(
                self.name,
                "lists with a limit were returned in pages of one object, and the state is not that of the "
                "reference run; read all pages with the continue token",
                found,
            )


class Versions(Variation):
    """Read and update custom resources in all served versions."""

    name = "versions"
    needs_objects = True

    async def before_change(self, probe: Probe, step: str) -> None:
        """Read what the previous step has applied."""
        await self._read_applied(probe)

    async def finish(self, probe: Probe) -> None:
        """Read what the last step has applied, and update all objects in other versions."""
        await self._read_applied(probe)
        if probe.run.findings or not await probe.settle():
            return
        for obj in probe.custom_objects():
            for version in served_versions(probe, obj.key[:2]):
                if not await self._update(probe, obj, version):
                    return

    async def _read_applied(self, probe: Probe) -> None:
        """Check that the fields of an applied object can be read in the version in which they were set."""
        applied, self.applied = self.applied, None
        if applied is None or probe.run.findings:
            return
        group, _, version = str(applied.get("apiVersion", "")).rpartition("/")
        kind = (group, str(applied.get("kind")))
        if len(served_versions(probe, kind)) < 2:
            return
        metadata = applied["metadata"]
        try:
            found = await probe.client.get(
                GroupVersionKind(group, version, kind[1]),
                metadata["name"],
                namespace=metadata.get("namespace"),
            )
        except APIError:
            return
        current = dict(leaves(dict(found.raw).get("spec")))
        lost = [path for path, value in leaves(applied.get("spec")) if value and not current.get(path)]
        if lost:
            probe.find(
                self.name,
                f"spec{lost[0]} of {kind[1]} {metadata['name']} was applied in the version {version}, and "
                "does not exist when it is read; conversions must keep every field",
            )

    async def _update(self, probe: Probe, obj: StateObject, version: str) -> bool:
        before = probe.state()
        kind = GroupVersionKind(obj.key.group, version, obj.key.kind)
        try:
            found = await probe.client.get(kind, obj.name, namespace=obj.namespace or None)
            await probe.client.update(found)
        except APIError as error:
            probe.find(self.name, f"{obj} cannot be read and updated unchanged in version {version}: {error}")
            return False
        await probe.settle(lambda: not probe.differences(before, probe.state()))
        changed = probe.differences(before, probe.state())
        if changed:
            probe.find(
                self.name,
                f"{obj} was read and updated unchanged in version {version}, and is another one; conversions "
                "must keep every field",
                changed,
            )
        return not changed


def served_versions(probe: Probe, kind: tuple[str, str]) -> list[str]:
    """Return the served versions of a custom resource."""
    return list(_served(probe, kind))


def _served(probe: Probe, kind: tuple[str, str]) -> Iterator[str]:
    for each in probe.definitions():
        spec: dict[str, Any] = each.data.get("spec") or {}
        if (spec.get("group"), spec.get("names", {}).get("kind")) == kind:
            yield from (found["name"] for found in spec.get("versions", ()) if found.get("served"))
