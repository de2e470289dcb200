"""`python -m bench.soak`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from bench.soak import soak


def main() -> int:
    """Run, print the report, and fail if there are errors."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Mixed load for a long time.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--store", default="memory:", help="as in `kubewright up --store`")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server is stopped, too
    report = asyncio.run(
        soak(given.seconds, workers=given.workers, store=given.store, seed=given.seed, progress=True)
    )
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
