"""Runs of many cases on one server, several at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conformance.case_run import CaseRun, RunOptions
from tests.conformance.cases import Case
from tests.conformance.compare import Comparer, Difference, Record
from tests.conformance.http_client import HTTPClient
from tests.conformance.normalise import number_identities
from tests.conformance.paths import lookup
from tests.conformance.recordings import Recording
from tests.conformance.webhook_server import WebhookServer

from kubewright.client import ClusterConfig


class ServerUnreachable(Exception):
    """The server under test did not respond."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one run of a case produced."""

    case: Case
    records: list[Record]
    error: str | None
    seconds: float

    def as_recording(self) -> Recording:
        """Return the recording to store; it has no responses, but a reason, if the run is not complete."""
        problem = self.error
        for record in self.records:
            if record.get("timeout"):
                problem = f"step {record['step']}: a wait timed out"
            elif record["status"] == 0 and not record["request"].startswith("CALLS"):
                problem = f"step {record['step']}: no response: {record.get('text')}"
        if problem:
            return Recording(self.case, [], problem)
        return Recording(self.case, number_identities(self.records))


@dataclass(frozen=True, slots=True)
class StepResult:
    """Comparison of one step with its recording."""

    case: str
    step: int
    label: str
    differences: list[Difference] = field(default_factory=list)

    @property
    def level(self) -> int:
        """Highest level at which the step passes; 0 if none."""
        return min((each.level for each in self.differences), default=4) - 1


@dataclass(frozen=True, slots=True)
class Runner:
    """Executes cases on one server."""

    client: HTTPClient
    hooks: WebhookServer
    options: RunOptions
    version: str
    """gitVersion of the server."""
    jobs: int = 8
    keep: bool = False
    """Whether created objects are left on the server."""

    async def run(self, cases: Iterable[Case]) -> AsyncIterator[CaseResult]:
        """Run cases, slow ones first and serial ones after all others; yield results as they complete."""
        ordered = sorted(cases, key=lambda case: not case.document.get("slow"))
        limit = asyncio.Semaphore(self.jobs)

        async def run_one(case: Case) -> CaseResult:
            async with limit:
                return await self._run_case(case)

        parallel = [asyncio.create_task(run_one(case)) for case in ordered if not case.is_serial]
        try:
            for finished in asyncio.as_completed(parallel):
                yield await finished
            for case in ordered:
                if case.is_serial:
                    yield await self._run_case(case)
        finally:
            for task in parallel:
                task.cancel()

    async def _run_case(self, case: Case) -> CaseResult:
        started = time.monotonic()
        run = CaseRun(self.client, self.hooks, case, self.options)
        error = await run.run()
        result = CaseResult(case, run.records, error, time.monotonic() - started)
        if not self.keep:
            await run.cleanup()
        return result


@asynccontextmanager
async def connect(
    config: ClusterConfig,
    *,
    jobs: int = 8,
    timeout: float = 30.0,
    keep: bool = False,
    webhook_host: str = "127.0.0.1",
    options: RunOptions | None = None,
) -> AsyncIterator[Runner]:
    """Connect a runner to a server; raise `ServerUnreachable` if it does not respond."""
    options = options or RunOptions()
    hooks = WebhookServer(webhook_host)
    async with HTTPClient(config, timeout) as client:
        version = await client.request("GET", "/version")
        if version.status != 200:
            detail = version.body[:200].decode("utf-8", "replace")
            raise ServerUnreachable(f"{config.server}: GET /version: {version.status} {detail}")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        review = await client.request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"Content-Type": "application/json"},
            json.dumps(body).encode(),
        )
        user: Any = lookup(review.json(), "status.userInfo.username") if review.status == 201 else None
        try:
            yield Runner(
                client,
                hooks,
                replace(options, user=user),
                version.json().get("gitVersion", ""),
                jobs,
                keep,
            )
        finally:
            await hooks.stop()


def judge(recording: Recording, result: CaseResult) -> list[StepResult]:
    """Compare the responses of a run with the recorded ones."""
    comparer = Comparer()
    actual = {record["step"]: record for record in result.records}
    results = []
    for expected in recording.responses:
        number = expected["step"]
        name = f" ({expected['name']})" if expected.get("name") else ""
        label = f"{recording.case.name} step {number}{name}: {expected['request']}"
        if number in actual:
            differences = comparer.compare(expected, actual[number])
        else:
            reason = result.error or "the case ended early"
            differences = [Difference(1, "run", f"not reached: {reason}")]
        results.append(StepResult(recording.case.name, number, label, differences))
    return results
