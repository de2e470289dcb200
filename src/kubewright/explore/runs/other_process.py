"""A reference run in another Python process, with another hash seed.

The order of a set of texts, and `hash` of a text, differ from process to process. `final_state_elsewhere`
imports operator and scenario in a new interpreter, runs the scenario there, and returns its final state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubewright.explore.final_state import NormalisedState
    from kubewright.explore.scenarios.scenarios import Scenario

_PROGRAM = "from kubewright.explore.runs.other_process import main; main()"


def final_state_elsewhere(
    operator: str, scenario: Scenario, *, seed: int, hash_seed: int
) -> NormalisedState | None:
    """Return the final state of a reference run in a new process.

    `None` if the operator cannot be imported there, or the state has values without a JSON form.
    """
    reading, writing = os.pipe()
    order = {
        "path": sys.path,
        "operator": operator,
        "file": scenario.file,
        "source": scenario.source,
        "seed": seed,
        "pipe": writing,
    }
    with subprocess.Popen(  # noqa: S603 - this interpreter, and a fixed program
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(writing,),
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    ) as process:
        os.close(writing)
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
        with os.fdopen(reading, "rb") as file_of_pipe:
            data = file_of_pipe.read()
    return json.loads(data) if data else None


def main() -> None:
    """Run the scenario that is described on stdin, and write its final state to a pipe."""
    order = json.load(sys.stdin)
    sys.path[:] = order["path"]

    from kubewright.explore.runs.run import run_once
    from kubewright.explore.scenarios.scenario_files import load_scenarios
    from kubewright.explore.simulation.factories import ModuleFactory

    scenario = next(each for each in load_scenarios(order["file"]) if each.source == order["source"])
    run = run_once(ModuleFactory(order["operator"]), scenario, seed=order["seed"])
    text = json.dumps(run.final_state)  # an error must not leave a part of it in the pipe
    with os.fdopen(order["pipe"], "w") as file:
        file.write(text)
