"""ControllerRevisions: the history of pod templates of StatefulSets and DaemonSets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.apps.v1 import ControllerRevision
from kubewright.api.core.v1 import PodTemplateSpec
from kubewright.api.encoding.codec import decode, to_plain
from kubewright.api.errors import AlreadyExists
from kubewright.api.meta import MetaObject, ObjectMeta
from kubewright.api.owners import owner_reference
from kubewright.api.selectors.label_selectors import Selector

from .controller_refs import ControllerRefs
from .owned_objects import owned_objects
from .template_hash import safe_encode

if TYPE_CHECKING:
    from .component_manager import ComponentManager

POD_REVISION_LABEL: Final = "controller-revision-hash"
"""Label of pods with the revision that they were created from."""
HASH_LABEL: Final = "controller.kubernetes.io/hash"
MAX_PREFIX: Final = 223
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


def template_patch(template: PodTemplateSpec) -> dict[str, Any]:
    """Return the data of a revision: a strategic merge patch that restores the template."""
    # Clients compare the encoded data with their own, whose keys are sorted.
    plain = json.dumps({**to_plain(template), "$patch": "replace"}, sort_keys=True)
    return {"spec": {"template": json.loads(plain)}}


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """Return the pod template of a revision."""
    template = {**((revision.data or {}).get("spec") or {}).get("template", {})}
    template.pop("$patch", None)
    return decode(json.dumps(template).encode(), PodTemplateSpec)


def encode_data(data: Mapping[str, Any] | None) -> bytes:
    """Return the data of a revision as Go encodes it, which the hash depends on."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return text.encode()


def revision_hash(data: Mapping[str, Any], collision_count: int) -> str:
    """Return the hash in the name of a revision: 32-bit FNV-1 of its data."""
    value = 0x811C9DC5
    for byte in encode_data(data) + str(collision_count).encode():
        value = ((value * 0x01000193) & 0xFFFFFFFF) ^ byte
    return safe_encode(str(value))


def by_revision(revision: ControllerRevision) -> tuple[int, datetime, str]:
    """Sort key: the oldest revision first."""
    created = revision.metadata.creation_timestamp or _OLDEST
    return revision.revision or 0, created, revision.name


class RevisionHistory:
    """The revisions of one object."""

    def __init__(self, manager: ComponentManager, owner: MetaObject, selector: Selector) -> None:
        self._manager = manager
        self._client = manager.client
        self._owner = owner
        self._selector = selector

    async def load(self) -> list[ControllerRevision]:
        """Return the revisions, the oldest first; orphans that match the selector are adopted."""
        found = await owned_objects(self._manager.cache, ControllerRevision, self._owner)
        refs = ControllerRefs(self._client, self._owner, ControllerRevision, self._selector)
        if self._owner.metadata.deletion_timestamp is None:
            found = await refs.claim(found)
        return sorted(found, key=by_revision)

    async def sync(
        self,
        revisions: list[ControllerRevision],
        template: PodTemplateSpec,
        collision_count: int,
    ) -> tuple[ControllerRevision, int]:
        """Return the revision of a template, created or renumbered if needed, and the collision count."""
        data = template_patch(template)
        encoded = encode_data(data)
        number = (revisions[-1].revision or 0) + 1 if revisions else 1
        equal = [each for each in revisions if encode_data(each.data) == encoded]
        if equal:
            latest = equal[-1]
            if latest is not revisions[-1]:
                latest.revision = number
                await self._client.update(latest)
            return latest, collision_count
        while True:
            digest = revision_hash(data, collision_count)
            created = await self.create(template, number, HASH_LABEL, digest)
            if created is not None:
                return created, collision_count
            collision_count += 1

    async def create(
        self, template: PodTemplateSpec, number: int, label: str, digest: str
    ) -> ControllerRevision | None:
        """Create the revision of a template, or return the one that exists; `None` if its name is in use for
        another template."""
        owner, data = self._owner, template_patch(template)
        labels = (template.metadata.labels if template.metadata is not None else None) or {}
        revision = ControllerRevision(
            metadata=ObjectMeta(
                name=f"{owner.name[:MAX_PREFIX]}-{digest}",
                namespace=owner.namespace,
                labels={**labels, label: digest},
                annotations=dict(owner.metadata.annotations or {}) or None,
                owner_references=[owner_reference(owner, controller=True, block_owner_deletion=True)],
            ),
            data=data,
            revision=number,
        )
        try:
            return await self._client.create(revision)
        except AlreadyExists:
            found = await self._client.uncached.get(
                ControllerRevision, revision.name, namespace=owner.namespace
            )
            return found if encode_data(found.data) == encode_data(data) else None

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete a revision."""
        await self._client.delete(
            ControllerRevision, revision.name, namespace=revision.namespace, missing_ok=True
        )

    async def truncate(
        self, revisions: list[ControllerRevision], in_use: Iterable[str], limit: int | None
    ) -> None:
        """Delete the oldest revisions above the limit that are not in use."""
        used = set(in_use)
        unused = [each for each in revisions if each.name not in used]
        for each in unused[: max(0, len(unused) - (10 if limit is None else limit))]:
            await self.delete(each)
