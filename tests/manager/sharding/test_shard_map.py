"""The map from partitions to replicas: balance, hand-over, storage."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubewright.controller import Request
from kubewright.manager.sharding import PARTITIONS, ShardMap, partition_of

MEMBERS = st.sets(st.sampled_from("abcdefg"), min_size=1)


@given(st.lists(MEMBERS, min_size=1, max_size=8))
@example([{"a"}, {"a", "b", "c"}, {"a", "b"}, {"a", "c"}])  # nothing is handed over in between
def test_partitions_are_balanced_with_few_moves(history: list[set[str]]) -> None:
    shards = ShardMap.empty(64)
    for members in history:
        before, owners = list(shards.next), list(shards.owners)
        shards.balance(members)
        counts = Counter(shards.next)
        assert set(counts) <= members
        assert max(counts.values()) - min(counts[member] for member in members) <= 1
        kept = sum(1 for old, new in zip(before, shards.next, strict=True) if old in members and old == new)
        # Only what a member has too much of is moved away from it.
        most = -(-64 // len(members))
        surplus = sum(max(0, count - most) for member, count in Counter(before).items() if member in members)
        assert kept >= sum(Counter(each for each in before if each in members).values()) - surplus - len(
            members
        )
        for old, new, following in zip(owners, shards.owners, shards.next, strict=True):
            if old in members:
                assert new == old, "a living owner hands over itself"
            else:
                assert new == following
        assert ShardMap.decode(shards.encode(), 64) == shards
        again = ShardMap.decode(shards.encode(), 64)
        again.balance(members)
        assert again == shards, "a balanced map does not change"


@given(st.lists(MEMBERS, min_size=1, max_size=8), st.data())
def test_partitions_that_are_not_handed_over_move_first(history: list[set[str]], data: st.DataObject) -> None:
    """A partition leaves its owner only if the owner has too many, however often the members change."""
    shards = ShardMap.empty(24)
    for members in history:
        settled = Counter(
            owner for owner, following in pairs(shards) if owner == following and owner in members
        )
        before = [owner if owner == following else "" for owner, following in pairs(shards)]
        shards.balance(members)
        lost = Counter(
            old for old, new in zip(before, shards.next, strict=True) if old in members and old != new
        )
        for member, count in lost.items():
            assert settled[member] - count >= 24 // len(members)
        shards.hand_over(data.draw(st.sets(st.integers(0, 23))))


def pairs(shards: ShardMap) -> list[tuple[str, str]]:
    return list(zip(shards.owners, shards.next, strict=True))


def test_hand_over() -> None:
    shards = ShardMap.empty(4)
    shards.balance(["a"])
    assert shards.owned_by("a") == {0, 1, 2, 3}
    shards.balance(["a", "b"])
    leaving = shards.leaving("a")
    assert len(leaving) == 2
    assert shards.owned_by("b") == set()
    shards.hand_over(leaving)
    assert shards.owned_by("b") == leaving
    assert shards.leaving("a") == set()


def test_damaged_maps_and_other_numbers_of_partitions() -> None:
    with pytest.raises(ValueError, match="damaged"):
        ShardMap.decode("{}")
    with pytest.raises(ValueError, match="the same number"):
        ShardMap.decode(ShardMap.empty(8).encode())


def test_partitions_are_the_same_in_every_process() -> None:
    program = (
        "from kubewright.manager.sharding import partition_of\n"
        "from kubewright.controller import Request\n"
        "print([partition_of(Request('default', f'n-{i}')) for i in range(5)])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == str([partition_of(Request("default", f"n-{i}")) for i in range(5)])


def test_ten_thousand_objects_are_distributed_evenly() -> None:
    shards = ShardMap.empty()
    shards.balance(["a", "b", "c"])
    counts = Counter(shards.owners[partition_of(Request("default", f"object-{i}"))] for i in range(10_000))
    assert max(counts.values()) / (10_000 / 3) < 1.15
    assert min(counts.values()) / (10_000 / 3) > 0.85
    assert len(shards.owners) == PARTITIONS
