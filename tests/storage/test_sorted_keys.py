"""`SortedKeys` compared with a sorted list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kubewright.storage import sorted_keys
from kubewright.storage.sorted_keys import SortedKeys, prefix_end

keys = st.text(alphabet="/ab\uffff\U0010ffff", max_size=5)


@settings(max_examples=200, deadline=None)
@given(
    start=st.sets(keys, max_size=40),
    toggles=st.lists(keys, max_size=120),
    low=keys,
    high=st.none() | keys,
    limit=st.none() | st.integers(0, 30),
)
def test_behaves_like_a_sorted_list(
    start: set[str], toggles: list[str], low: str, high: str | None, limit: int | None
) -> None:
    previous, sorted_keys.CHUNK = sorted_keys.CHUNK, 4
    try:
        tested = SortedKeys(start)
        model = set(start)
        for key in toggles:
            if key in model:
                model.remove(key)
                tested.remove(key)
            else:
                model.add(key)
                tested.add(key)
            expected = [key for key in sorted(model) if low <= key and (high is None or key < high)]
            assert tested.count(low, high) == len(expected)
            assert tested.slice(low, high, limit) == expected[:limit]
    finally:
        sorted_keys.CHUNK = previous


@given(prefix=keys, others=st.lists(keys, max_size=30))
def test_the_end_of_a_prefix(prefix: str, others: list[str]) -> None:
    end = prefix_end(prefix)
    for key in [*others, *(prefix + other for other in others)]:
        assert key.startswith(prefix) == (key >= prefix and (end is None or key < end))
