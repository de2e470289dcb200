"""Replay of the recordings on the in-process control plane: all of the newest Kubernetes version, and of the
others the cases whose responses differ from it.

A step that differs at L2 fails unless `known_differences.yaml` lists it. With `KUBEBUILDER_ASSETS` the
recordings of its version are replayed on that kube-apiserver, and every difference fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import NamedTuple

import pytest
from tests.conformance.case_run import RunOptions
from tests.conformance.known import known_differences, known_file, read_known
from tests.conformance.recordings import (
    Recording,
    minor_version,
    read_category,
    read_index,
    recorded_servers,
)
from tests.conformance.report import describe
from tests.conformance.runner import StepResult, connect, judge
from tests.conformance.servers import NEED_CONTROLLERS, control_plane
from tests.conformance.version_differences import differences_of

from kubewright.client import ClusterConfig

read_once = lru_cache(maxsize=1)(read_category)  # chunks of a category are replayed one after the other
LEVEL = 2
STEPS_PER_CHUNK = 250


class Chunk(NamedTuple):
    """Every `count`-th case of a category, from `number` on: a test of similar duration as the others."""

    category: str
    number: int
    count: int


def chunks() -> list[Chunk]:
    found = []
    for category, size in read_index().items():
        count = min(size.cases, math.ceil(size.steps / STEPS_PER_CHUNK))
        found += [Chunk(category, number, count) for number in range(count)]
    return found


@asynccontextmanager
async def server(
    real: ClusterConfig | None, *, controllers: bool, version: str = ""
) -> AsyncIterator[ClusterConfig]:
    if real is not None:
        yield real
    else:
        async with control_plane(controllers=controllers, version=version) as config:
            yield config


async def version_of(real: ClusterConfig | None) -> str:
    """Return the minor version of the kube-apiserver of this test run."""
    if real is None:
        return ""
    async with connect(real) as runner:
        return minor_version(runner.version)


@pytest.mark.parametrize("chunk", [pytest.param(each, id=f"{each[0]}-{each[1]}") for each in chunks()])
async def test_responses_equal_the_recorded_ones(chunk: Chunk, real_config: ClusterConfig | None) -> None:
    if real_config is not None and chunk.category in NEED_CONTROLLERS:
        pytest.skip("needs kube-controller-manager, which real_config does not start")
    recordings = read_once(chunk.category, version=await version_of(real_config))[chunk.number :: chunk.count]
    await replay(recordings, real_config)


@pytest.mark.parametrize("version", list(recorded_servers())[1:])
@pytest.mark.parametrize("controllers", [False, True])
async def test_versions_differ_as_recorded(
    version: str, controllers: bool, real_config: ClusterConfig | None
) -> None:
    """Cases whose responses differ from those of the newest version, up to the last one that differs."""
    if real_config is not None:
        pytest.skip("the version of a real server is replayed in full")
    categories = [each for each in read_index() if (each in NEED_CONTROLLERS) is controllers]
    differing = [each.recording for each in differences_of(version, categories, level=LEVEL)]
    if differing:
        await replay(differing, None, version=version)


async def replay(
    recordings: Sequence[Recording], real_config: ClusterConfig | None, version: str = ""
) -> None:
    """Replay cases of one category on a server, and assert that they return what is recorded."""
    expected = {each.case.name: each for each in recordings}
    controllers = any(each.case.category in NEED_CONTROLLERS for each in recordings)
    known = known_differences(version) if real_config is None else {}
    options = RunOptions(max_wait=120, with_sleeps=real_config is not None)
    steps: list[StepResult] = []
    async with (
        server(real_config, controllers=controllers, version=version) as config,
        connect(config, timeout=120, keep=real_config is None, options=options) as runner,
    ):
        async for result in runner.run(each.case for each in recordings):
            steps += judge(expected[result.case.name], result)
    failed = [each for each in steps if each.level < LEVEL and (each.case, each.step) not in known]
    own = read_known(known_file(version or next(iter(recorded_servers())))) if known else {}
    stale = [each for each in steps if each.level >= LEVEL and (each.case, each.step) in own]
    if stale:
        warnings.warn(
            "stale known differences (check --prune-known): "
            + ", ".join(f"{each.case}#{each.step}" for each in stale),
            stacklevel=1,
        )
    assert not failed, f"{len(failed)} steps differ\n" + "\n".join(describe(each, LEVEL) for each in failed)
