"""Scenarios: their steps, and files with them.

- `aligned_steps`: `AlignedSteps`: steps of a run at the times of the reference run
- `scenario_files`: scenarios from files: Python files with functions marked by `@scenario`, and YAML
- `scenarios`: `Scenario`: the steps that an exploration repeats with different faults, and what must hold
  meanwhile
- `steps`: `Steps`: what a scenario can do with the cluster, and `ClientSteps`, which does it with a client
"""
