"""`ShardMap`: the owner of each partition, and who owns it next."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

PARTITIONS: Final = 256
"""Number of partitions. It cannot be changed while replicas run: the map would be another one."""

UNASSIGNED: Final = ""


def partition_of(request: Hashable, partitions: int = PARTITIONS) -> int:
    """Return the partition of a request; the same in every process and version of Python."""
    namespace, name = getattr(request, "namespace", None), getattr(request, "name", None)
    text = f"{namespace}/{name}" if name is not None else str(request)
    if cluster := getattr(request, "cluster", ""):
        text = f"{cluster}://{text}"
    return zlib.crc32(text.encode()) % partitions


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    members: list[str]
    owners: list[int]
    next: list[int]


@dataclass(slots=True)
class ShardMap:
    """`owners[p]` reconciles partition p and hands it over to `next[p]`, if that is another replica."""

    owners: list[str]
    next: list[str]

    @classmethod
    def empty(cls, partitions: int = PARTITIONS) -> ShardMap:
        """Return a map without owners."""
        return cls([UNASSIGNED] * partitions, [UNASSIGNED] * partitions)

    @classmethod
    def decode(cls, text: str, partitions: int = PARTITIONS) -> ShardMap:
        """Read a stored map; raises `ValueError`."""
        try:
            stored = msgspec.json.decode(text, type=_Stored)
            names = [*stored.members, UNASSIGNED]
            found = cls([names[each] for each in stored.owners], [names[each] for each in stored.next])
        except (msgspec.MsgspecError, IndexError) as error:
            raise ValueError(f"the shard map is damaged: {error}") from None
        if len(found.owners) != partitions or len(found.next) != partitions:
            raise ValueError(
                f"the shard map has {len(found.owners)} partitions, not {partitions}: "
                "all replicas must use the same number"
            )
        return found

    def encode(self) -> str:
        """Return the text to store."""
        members = sorted({*self.owners, *self.next} - {UNASSIGNED})
        numbers = {name: index for index, name in enumerate(members)} | {UNASSIGNED: -1}
        stored = _Stored(
            members, [numbers[name] for name in self.owners], [numbers[name] for name in self.next]
        )
        return msgspec.json.encode(stored).decode()

    def owned_by(self, member: str) -> set[int]:
        """Return the partitions that a replica owns and keeps."""
        pairs = enumerate(zip(self.owners, self.next, strict=True))
        return {index for index, (owner, following) in pairs if owner == following == member}

    def leaving(self, member: str) -> set[int]:
        """Return the partitions that a replica owns and has to hand over."""
        pairs = enumerate(zip(self.owners, self.next, strict=True))
        return {index for index, (owner, following) in pairs if owner == member != following}

    def hand_over(self, partitions: Iterable[int]) -> None:
        """Make the next owners the owners."""
        for index in partitions:
            self.owners[index] = self.next[index]

    def balance(self, members: Collection[str]) -> None:
        """Give every member the same number of partitions, give or take one, and move as few as possible.

        Partitions of replicas that are not members have a new owner immediately. Those that were to be handed
        over to such a replica stay with their owner if it has too few, and are moved before others if it has
        too many.
        """
        for index, owner in enumerate(self.owners):
            if owner not in members:
                self.owners[index] = UNASSIGNED
            if self.next[index] not in members:
                self.next[index] = UNASSIGNED
        if not members:
            return
        counts = dict.fromkeys(sorted(members), 0)
        for member in self.next:
            if member:
                counts[member] += 1
        least, extra = divmod(len(self.next), len(counts))
        # The members with the most partitions keep one more.
        fullest = sorted(counts, key=lambda member: (-counts[member], member))
        wanted = {member: least + (position < extra) for position, member in enumerate(fullest)}
        moved = []
        for index in sorted(range(len(self.next)), key=lambda each: self.owners[each] == self.next[each]):
            member = self.next[index]
            if member and counts[member] > wanted[member]:
                counts[member] -= 1
                member = self.next[index] = UNASSIGNED
            if not member:
                moved.append(index)
        for index in moved:
            taker = self.owners[index]
            if not taker or counts[taker] >= wanted[taker]:
                taker = min(wanted, key=lambda each: (counts[each] - wanted[each], each))
            counts[taker] += 1
            self.next[index] = taker
        self.owners = [owner or taker for owner, taker in zip(self.owners, self.next, strict=True)]
