"""The log of a container takes a bounded number of bytes, and its output does not pass through the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.security.examples import examples
from tests.workloads.nodes.process_cluster import ProcessCluster, linux_only, start_process_cluster

from kubewright.workloads.nodes.containers.container_log import LogOptions, MemoryLog
from kubewright.workloads.nodes.processes import log_writer
from kubewright.workloads.nodes.processes.log_files import FileLog, LogLimits
from kubewright.workloads.nodes.processes.log_writer import LogWriter, timestamp

MEBIBYTE = 1024 * 1024


@pytest.fixture
async def cluster() -> AsyncIterator[ProcessCluster]:
    async with start_process_cluster() as cluster:
        yield cluster


def runtime_of(cluster: ProcessCluster) -> Any:
    return cluster.nodes.runtime


async def read(log: Any, **options: Any) -> bytes:
    return b"".join([data async for data in log.read(LogOptions(**options))])


def directory_size(path: Path) -> int:
    total = 0
    for parent, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(parent, name)).st_size if name.endswith(".log") else 0
    return total


@linux_only
async def test_log_of_long_lines_is_bounded(cluster: ProcessCluster) -> None:
    # 30 MiB in 300 lines, which a limit on the number of lines does not bound.
    program = "for i in range(300): print(str(i % 10) * 100_000)\nprint('end', flush=True)"
    await cluster.run_pod("app", sys.executable, "-c", program, spec={"restartPolicy": "Never"})
    assert (await cluster.exit_of("app"))["exitCode"] == 0
    text = await cluster.logs("app")
    assert len(text) <= 10 * MEBIBYTE
    assert text.endswith("\n" + "9" * 100_000 + "\nend\n")
    assert directory_size(runtime_of(cluster).state.path) <= 50 * MEBIBYTE


@linux_only
async def test_output_does_not_pass_through_the_server(cluster: ProcessCluster) -> None:
    await cluster.run_pod("app", "yes")
    await cluster.container("app", lambda status: status["started"])
    folder = runtime_of(cluster).state.path

    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = bytes_read()
    async with asyncio.timeout(60):
        while directory_size(folder) < 40 * MEBIBYTE:
            await asyncio.sleep(0.05)
    assert bytes_read() - before < MEBIBYTE
    assert (await cluster.logs("app")).startswith("y\ny\n")
    assert directory_size(folder) <= 51 * MEBIBYTE
    await cluster.client.delete("Pod", "app", grace_period=0)
    async with asyncio.timeout(60):
        while directory_size(folder):
            await asyncio.sleep(0.05)


@linux_only
async def test_follow_continues_with_the_next_file(cluster: ProcessCluster) -> None:
    runtime_of(cluster).log_limits = LogLimits(max_size=16 * 1024, max_files=1000)
    program = "import sys\nfor i in sys.stdin: pass\nfor i in range(5000): print('line', i)"
    await cluster.run_pod(
        "app", sys.executable, "-c", program, stdin=True, stdinOnce=True, spec={"restartPolicy": "Never"}
    )
    await cluster.container("app", lambda status: status["started"])
    run = cluster.current_run("app")
    reading = asyncio.create_task(read(cluster.nodes.runtime.log(run), follow=True))
    process = runtime_of(cluster).process_of(run)

    class NoInput:
        tty = False

        async def read_stdin(self) -> bytes:
            return b""

        async def write_stdout(self, data: bytes) -> None:
            pass

    await process.attach(NoInput())
    async with asyncio.timeout(60):
        text = await reading
    assert text.decode().splitlines() == [f"line {number}" for number in range(5000)]
    assert len(list(Path(process.spec.log).iterdir())) > 10


@linux_only
async def test_logs_of_the_last_two_runs_are_stored(cluster: ProcessCluster) -> None:
    await cluster.run_pod("app", "sh", "-c", "echo run; exit 1")
    await cluster.container("app", lambda status: status["restartCount"] >= 3)
    assert await cluster.logs("app", previous=True) == "run\n"
    folder = Path(runtime_of(cluster).state.path)
    runs = list(folder.glob("pods/*/logs/app/*"))
    assert len(runs) <= 3


async def test_log_in_memory_is_bounded_in_bytes() -> None:
    log, date = MemoryLog(), datetime.now(UTC)
    for number in range(200):
        log.write(b"%d" % (number % 10) * 100_000, date)
    assert len(await read(log)) <= MEBIBYTE
    assert log.last_lines(1) == [b"9" * 100_000]
    log.write(b"x" * 20 * MEBIBYTE, date)
    assert len(await read(log)) <= MEBIBYTE + 1
    log.write(b"\n" * 5 * MEBIBYTE, date)
    assert len(log.last_lines(10_000_000)) <= 10_000


# Selection

LINES = st.lists(
    st.one_of(st.binary(max_size=12), st.sampled_from([b"", b"\r", b"a b F c", b"x" * 17_000])).map(
        lambda line: line.replace(b"\n", b"")
    ),
    max_size=12,
)


@settings(max_examples=examples(40))
@given(
    lines=LINES,
    cuts=st.lists(st.integers(1, 20_000), min_size=1, max_size=5),
    tail=st.none() | st.integers(0, 14),
    limit=st.none() | st.integers(1, 40),
    stamped=st.booleans(),
)
async def test_selected_lines_are_those_that_were_written(
    lines: list[bytes], cuts: list[int], tail: int | None, limit: int | None, stamped: bool
) -> None:
    output = b"".join(line + b"\n" for line in lines)
    now = 1_700_000_000_000_000_000
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_writer.time, "time_ns", lambda: now)
        log = FileLog(Path(folder))
        writer = LogWriter(folder, MEBIBYTE, 2)
        position = 0
        while position < len(output):
            size = cuts[position % len(cuts)]
            writer.write(output[position : position + size], "stdout")
            position += size
        writer.close()
        # Long lines are several records, which a tail counts as lines, as kubelets do.
        if tail is None or not any(len(line) > 10_000 for line in lines):
            head = timestamp(now) + b" " if stamped else b""
            expected = b"".join(
                head + line + b"\n" for line in (lines if tail is None else lines[-tail or len(lines) :])
            )
            assert await read(log, tail_lines=tail, timestamps=stamped, limit_bytes=limit) == expected[:limit]
        assert await read(log, since=datetime.fromtimestamp(now / 1e9, UTC) + timedelta(seconds=1)) == b""
        assert await read(log, stream="Stderr") == b""
        assert await read(log, stream="Stdout") == output


@settings(max_examples=examples(40))
@given(
    chunks=st.lists(st.binary(max_size=3000), max_size=40),
    size=st.integers(200, 5000),
    files=st.integers(1, 4),
)
def test_files_never_exceed_their_limits(chunks: list[bytes], size: int, files: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = LogWriter(folder, size, files)
        for chunk in chunks:
            writer.write(chunk, "stderr")
            sizes = [entry.stat().st_size for entry in os.scandir(folder)]
            assert len(sizes) <= files
            assert max(sizes, default=0) <= size
        writer.close()


def test_output_of_a_deleted_pod_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    writer = LogWriter(str(folder), 100, 2)
    writer.write(b"line\n", "stdout")
    for entry in folder.iterdir():
        entry.unlink()
    folder.rmdir()
    writer.write(b"line\n" * 100, "stdout")
    writer.close()
    assert not folder.exists()
