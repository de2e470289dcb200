"""Replay of all recordings on the in-process control plane.

A step that differs at L2 fails unless `known_differences.yaml` lists it. With `KUBEBUILDER_ASSETS` the
recordings are replayed on that kube-apiserver, and every difference fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache

import pytest
from tests.conformance.case_run import RunOptions
from tests.conformance.known import read_known
from tests.conformance.recordings import read_category, read_index
from tests.conformance.report import describe
from tests.conformance.runner import StepResult, connect, judge
from tests.conformance.servers import NEED_CONTROLLERS, control_plane

from kubewright.client import ClusterConfig

read_once = lru_cache(maxsize=1)(read_category)  # chunks of a category are replayed one after the other
LEVEL = 2
STEPS_PER_CHUNK = 250


def chunks() -> list[tuple[str, int, int]]:
    """Category, number of the chunk and number of chunks; each chunk is a test of similar duration."""
    found = []
    for category, size in read_index().items():
        count = min(size.cases, math.ceil(size.steps / STEPS_PER_CHUNK))
        found += [(category, number, count) for number in range(count)]
    return found


@asynccontextmanager
async def server(real: ClusterConfig | None, *, controllers: bool) -> AsyncIterator[ClusterConfig]:
    if real is not None:
        yield real
    else:
        async with control_plane(controllers=controllers) as config:
            yield config


@pytest.mark.parametrize(
    ("category", "number", "count"), [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in chunks()]
)
async def test_responses_equal_the_recorded_ones(
    category: str, number: int, count: int, real_config: ClusterConfig | None
) -> None:
    if real_config is not None and category in NEED_CONTROLLERS:
        pytest.skip("needs kube-controller-manager, which real_config does not start")
    recordings = {each.case.name: each for each in read_once(category)[number::count]}
    known = read_known() if real_config is None else {}
    options = RunOptions(max_wait=120, with_sleeps=real_config is not None)
    steps: list[StepResult] = []
    async with (
        server(real_config, controllers=category in NEED_CONTROLLERS) as config,
        connect(config, timeout=120, keep=real_config is None, options=options) as runner,
    ):
        async for result in runner.run(each.case for each in recordings.values()):
            steps += judge(recordings[result.case.name], result)
    failed = [each for each in steps if each.level < LEVEL and (each.case, each.step) not in known]
    stale = [each for each in steps if each.level >= LEVEL and (each.case, each.step) in known]
    if stale:
        warnings.warn(
            "stale known differences (check --prune-known): "
            + ", ".join(f"{each.case}#{each.step}" for each in stale),
            stacklevel=1,
        )
    assert not failed, f"{len(failed)} steps differ\n" + "\n".join(describe(each, LEVEL) for each in failed)
