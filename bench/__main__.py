"""`python -m bench [topic ...]`: print CPU per operation beside its target."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench
from bench import Result, measure, raise_gc_thresholds


def topics() -> list[str]:
    """The names of all topics."""
    return sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name[0] != "_")


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:,.2f} us"
    return f"{seconds * 1e3:,.2f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def _line(result: Result, width: int) -> str:
    target, ratio = result.benchmark.target, result.ratio
    verdict = "" if ratio is None else f"{ratio:6.2f}x{'' if ratio <= 1 else '  over'}"
    shown = "" if target is None else _duration(target)
    return (
        f"  {result.benchmark.name:<{width}} {_duration(result.seconds):>14} {shown:>14} {verdict}".rstrip()
    )


def main(arguments: list[str]) -> int:
    """Measure the topics named, or all of them."""
    known = topics()
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no topic named {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for topic in arguments or known:
        benchmarks = importlib.import_module(f"bench.{topic}").benchmarks()
        raise_gc_thresholds()
        width = max(len(benchmark.name) for benchmark in benchmarks)
        print(f"{topic:<{width + 2}} {'CPU per op':>14} {'target':>14}   ratio")
        for benchmark in benchmarks:
            print(_line(measure(benchmark), width), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
