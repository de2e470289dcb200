"""Systematic exploration of an operator: faults at every point of a scenario, and invariants that must hold.

    @scenario(invariants=[no_orphans()])
    async def create_and_delete(steps: Steps) -> None:
        await steps.apply(Shop(metadata=ObjectMeta(name="a"), spec=ShopSpec(size=2)))
        await steps.wait(Shop, "a", condition="Ready")
        await steps.delete(Shop, "a")

- `scenarios`: `Scenario` and the decorator `scenario`
- `steps`: `Steps`, what a scenario can do with the cluster
- `scenario_files`: `load_scenarios` reads scenarios from Python files and YAML
- `state`: `ClusterState`, all objects at one revision with their owners, earlier states and requests
- `invariants`: `Invariant`, the decorators `always` and `at_end`, and ready-made invariants
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
