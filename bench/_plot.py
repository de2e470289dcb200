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
    return [_plot_curve(curve, run, directory / f"scale-{curve['name']}.svg") for curve in run["curves"]]


def _plot_curve(curve: Curve, run: Run, path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    memory, cpu, latency = figure.subplots(1, 3)
    sizes = [point["size"] for point in curve["points"]]
    memory.plot(sizes, [point["rss_mb"] for point in curve["points"]], marker="o", color="tab:gray")
    for number, name in enumerate(curve["points"][0]["operations"]):
        figures = [point["operations"][name] for point in curve["points"]]
        color = f"C{number}"
        cpu.plot(sizes, [each["cpu_us"] for each in figures], marker="o", color=color, label=name)
        latency.plot(
            sizes, [each["p50_ms"] for each in figures], marker="o", color=color, label=f"{name}, p50"
        )
        latency.plot(
            sizes, [each["p99_ms"] for each in figures], marker=".", linestyle=":", color=color, label="p99"
        )
    for axes, title in (
        (memory, "RSS of the server [MB]"),
        (cpu, "CPU per operation [us]"),
        (latency, "latency [ms]"),
    ):
        _format_axes(axes, title, curve["unit"], sizes)
    memory.set_ylim(bottom=0)
    cpu.set_ylim(bottom=0)
    latency.set_yscale("log")
    cpu.legend(fontsize=7)
    latency.legend(fontsize=7)
    figure.suptitle(f"{run['machine']}, load average {run['load']:g} at the start", fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    return path


def _format_axes(axes: Any, title: str, unit: str, sizes: list[int]) -> None:
    axes.set_title(title)
    axes.set_xlabel(unit)
    axes.set_xscale("log")
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
