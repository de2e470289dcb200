"""`python -m bench [topic ...]`: print CPU per operation beside its target.

`python -m bench scale --plot DIRECTORY` measures the cost curves instead, and writes them to the directory as
`scale.json` and as SVG.

Topics and benchmarks with missing dependencies are reported as skipped; the last lines count the results and
name those over their target.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import time
import traceback
from pathlib import Path

import bench
from bench import Benchmark, Result, Unavailable, measure, raise_gc_thresholds


def topics() -> list[str]:
    """The names of all topics."""
    found = pkgutil.iter_modules(bench.__path__)
    return sorted(module.name for module in found if module.name[0] != "_" and not module.ispkg)


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:,.2f} us"
    return f"{seconds * 1e3:,.2f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def _amount(benchmark: Benchmark, cost: float) -> str:
    return f"{cost:,.1f} MB" if benchmark.in_megabytes else _duration(cost)


def _line(result: Result, width: int) -> str:
    target, ratio = result.benchmark.target, result.ratio
    verdict = "" if ratio is None else f"{ratio:6.2f}x{'' if ratio <= 1 else '  over'}"
    shown = "" if target is None else _amount(result.benchmark, target)
    cost = _amount(result.benchmark, result.cost)
    return f"  {result.benchmark.name:<{width}} {cost:>14} {shown:>14} {verdict}".rstrip()


def _topic(name: str) -> list[Result]:
    """Measure and print one topic."""
    benchmarks = importlib.import_module(f"bench.{name}").benchmarks()
    raise_gc_thresholds()
    width = max(len(benchmark.name) for benchmark in benchmarks)
    print(f"{name:<{width + 2}} {'CPU per op':>14} {'target':>14}   ratio")
    results = []
    for benchmark in benchmarks:
        try:
            result = measure(benchmark)
        except (Unavailable, ModuleNotFoundError) as error:
            print(f"  {benchmark.name:<{width}} skipped, {error}", flush=True)
            continue
        results.append(result)
        print(_line(result, width), flush=True)
    return results


def _plot(directory: Path) -> int:
    """Measure the cost curves and plot them."""
    from bench._curves import Run, measure_curves
    from bench._plot import plot

    directory.mkdir(parents=True, exist_ok=True)

    def save(run: Run) -> None:
        (directory / "scale.json").write_text(json.dumps(run, indent=1) + "\n")

    run = measure_curves(save)
    for path in plot(run, directory):
        print(f"wrote {path}")
    return 0


def main(arguments: list[str]) -> int:
    """Measure the topics named, or all of them."""
    if "--plot" in arguments:
        if len(arguments) != 3 or arguments[:2] != ["scale", "--plot"]:
            print("usage: python -m bench scale --plot DIRECTORY", file=sys.stderr)
            return 2
        return _plot(Path(arguments[2]))
    known = topics()
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no topic named {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    results: list[Result] = []
    failed = []
    for topic in arguments or known:
        try:
            results += _topic(topic)
        except (Unavailable, ModuleNotFoundError) as error:
            print(f"{topic}: skipped, {error}", flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(topic)
    over = [result for result in results if result.ratio is not None and result.ratio > 1]
    judged = sum(result.ratio is not None for result in results)
    seconds = time.monotonic() - begun
    print(f"{len(results)} figures in {seconds:.0f} s, {judged} with a target, {len(over)} over it")
    for result in over:
        print(f"  over: {result.benchmark.name} ({result.ratio:.2f}x)")
    if failed:
        print(f"could not be measured: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
