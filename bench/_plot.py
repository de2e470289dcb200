"""Plots of cost curves as SVG: `python -m bench._plot RUN.json DIRECTORY`.

They require matplotlib, which the extra `docs` installs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench._curves import Curve, Run


def plot(run: Run, directory: Path) -> list[Path]:
    """Write one SVG per curve; return their paths."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise SystemExit(
            "Error: plots require matplotlib; install it with pip install 'kubewright[docs]'"
        ) from None
    matplotlib.use("svg")
    # Text stays text, and a repeated run of the same figures writes the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kubewright", "font.size": 9})
    directory.mkdir(parents=True, exist_ok=True)
    curves: dict[str, list[Curve]] = {}
    for curve in run["curves"]:
        curves.setdefault(curve["name"], []).append(curve)
    return [_plot_curves(group, run, directory / f"scale-{name}.svg") for name, group in curves.items()]


def _plot_curves(curves: list[Curve], run: Run, path: Path) -> Path:
    """Plot the curves of one name: a row for each server, with the same scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.6 + 2.8 * len(curves)), layout="constrained")
    grid = figure.subplots(len(curves), 3, sharey="col", squeeze=False)
    for curve, (memory, cpu, latency) in zip(curves, grid, strict=True):
        sizes = [point["size"] for point in curve["points"]]
        memory.plot(sizes, [point["rss_mb"] for point in curve["points"]], marker="o", color="tab:gray")
        for number, name in enumerate(curve["points"][0]["operations"]):
            figures = [point["operations"][name] for point in curve["points"]]
            color = f"C{number}"
            cpu.plot(sizes, [each["cpu_us"] for each in figures], marker="o", color=color, label=name)
            p50, p99 = ([each[key] for each in figures] for key in ("p50_ms", "p99_ms"))
            latency.plot(sizes, p50, marker="o", color=color, label=f"{name}, p50")
            latency.plot(sizes, p99, marker=".", linestyle=":", color=color, label="p99")
        for axes, title in (
            (memory, "memory [MB]"),
            (cpu, "CPU per operation [us]"),
            (latency, "latency [ms]"),
        ):
            _format_axes(axes, f"{curve['server']}: {title}", curve["unit"], sizes)
    for axes in grid[0][1:]:  # the same colours in every row
        axes.legend(fontsize=7)
    figure.suptitle(f"{run['machine']}, load average {run['load']:g} at the start", fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    return path


def _format_axes(axes: Any, title: str, unit: str, sizes: list[int]) -> None:
    from matplotlib.ticker import LogLocator

    axes.set_title(title, fontsize=9)
    axes.set_xlabel(unit)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def main(arguments: list[str]) -> int:
    """Plot a run that was saved as JSON."""
    if len(arguments) != 2:
        print("usage: python -m bench._plot RUN.json DIRECTORY", file=sys.stderr)
        return 2
    for path in plot(json.loads(Path(arguments[0]).read_text()), Path(arguments[1])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
