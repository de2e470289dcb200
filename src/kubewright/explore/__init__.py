"""Systematic exploration of an operator: faults at every point of a scenario, and invariants that must hold.

    @scenario(invariants=[no_orphans()])
    async def create_and_delete(steps: Steps) -> None:
        await steps.apply(Shop(metadata=ObjectMeta(name="a"), spec=ShopSpec(size=2)))
        await steps.wait(Shop, "a", condition="Ready")
        await steps.delete(Shop, "a")

- `scenarios`: `Scenario`, its steps, and files with scenarios
- `state`: `ClusterState`, all objects at one revision with their owners, earlier states and requests
- `invariants`: `Invariant`, the decorators `always` and `at_end`, and ready-made invariants
- `oracles`: variations of the scenario and default checks, which need no expectation
- `simulation`: control plane, processes of the operator, requests and time in one event loop
- `faults`: `Fault`, what happens at which point, one class per fault; `families`: the faults that a reference
  run offers, by what goes wrong
- `runs`: `run_once`, one run of a scenario with planned faults, and what it violated
- `final_state`: normalised final states and their differences
- `explorer`: `explore`, all runs of some scenarios; `exploration`: its result, and the violations
- `exploration_session`: the process that explores a scenario
- `minimise`: the fewest steps with which a fault still violates the same
- `replay`: tokens and files that repeat a run; `subjects`: what was explored, as commands and tests name it
- `baseline`: violations that are known and accepted
- `testing`: `explored` and `check_replay`, for tests
- `specs`: `explore_specs` changes every field of a spec
- `foreign`: exploration of programs such as kopf operators
- `reports`: reports as text, JSON, HTML, JUnit and SARIF
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(
    __name__,
    renamed={"Budget": "ExplorationBudget", "ObjectKey": "StateKey", "Program": "ExploredProgram"},
)
