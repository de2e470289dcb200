"""Systematic exploration of an operator: faults at every point of a scenario, and invariants that must hold.

    @scenario(invariants=[no_orphans()])
    async def create_and_delete(steps: Steps) -> None:
        await steps.apply(Shop(metadata=ObjectMeta(name="a"), spec=ShopSpec(size=2)))
        await steps.wait(Shop, "a", condition="Ready")
        await steps.delete(Shop, "a")

Scenarios and what must hold:

- `scenarios`: `Scenario` and the decorator `scenario`
- `steps`: `Steps`, what a scenario can do with the cluster
- `scenario_files`: `load_scenarios` reads scenarios from Python files and YAML
- `state`: `ClusterState`, all objects at one revision with their owners, earlier states and requests
- `invariants`: `Invariant`, the decorators `always` and `at_end`, and ready-made invariants

Runs:

- `run`: `run_once`, one run of a scenario with planned faults, and what it violated
- `reference_checks`: what makes a reference run a violation
- `oracles`: variations of the scenario and default checks, which need no expectation
- `run_result`: `Run`, the result of a run, and its `Finding`s
- `aligned_steps`: steps at the times of the reference run
- `loop`: `VirtualLoop`, the event loop with virtual time and simulated processes
- `determinism`: clocks and randomness that depend on the seed only
- `cluster`: `SimulatedCluster`, the control plane and the processes of the operator
- `processes`, `factories`: processes of the operator, and a new operator for each of them
- `programs`: `WorkloadControllers` and `ControlPlaneControllers`, controllers as programs to explore
- `definition_finalizer`: `DefinitionFinalizer`, the deletion of CustomResourceDefinitions as a program
- `replica`: the API server as the controllers of a control plane see it in a process of their own
- `transport`, `streams`, `local_webhooks`: requests, watches and webhook calls, where faults are injected
- `reconcile_order`: starts of reconciles, which faults and seeds reorder; `schedules`: their awaits
- `external`: `ExternalFake`, a system outside of the cluster with the same fault points
- `trace`: `Trace`, the numbered events of a run
- `faults`: `Fault`, what happens at which point, one class per fault; `process_target`: what a fault can do
  with a simulated process
- `final_state`: normalised final states and their differences

Explorations:

- `explorer`: `explore`, all runs of some scenarios; `exploration`: its result, and the violations
- `exploration_session`: the process that explores a scenario; `warm_up`: what is built before it is forked
- `families`: the faults that a reference run offers, by what goes wrong
- `session`: a prepared cluster, from which runs are forked at the point of their fault; `forks`: forked
  processes and what they send
- `minimise`: the fewest steps with which a fault still violates the same
- `replay`: tokens and files that repeat a run; `subjects`: what was explored, as commands and tests name it
- `baseline`: violations that are known and accepted
- `testing`: `explored` and `check_replay`, for tests
- `line_coverage`: the lines of the operator that runs reached
- `spec_exploration`: `explore_specs` changes every field of a spec; `spec_fields`, `spec_derived`,
  `spec_trials` and `spec_dependencies` are its parts
- `foreign`: exploration of programs such as kopf operators
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(
    __name__,
    renamed={"Budget": "ExplorationBudget", "ObjectKey": "StateKey", "Program": "ExploredProgram"},
)
