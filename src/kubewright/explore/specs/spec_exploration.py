"""`explore_specs`: change every field of a custom resource, and check that the operator handles it.

The objects to start from are those that the scenarios apply. For each field of their spec, each value of
`values_for` is applied to a healthy object, and then the original spec again. Checked are:

- the change is rejected by the API server, or the operator converges without errors
- the change back restores the earlier state
- a change that the operator cannot handle does not delete what was healthy
- the state does not depend on what was before: it is the same for an object that is created with the spec,
  and after a walk through all values

Reported are also fields of which no value has an effect, and the dependencies that were learned.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kubewright.explore.final_state import NormalisedState, differences
from kubewright.explore.reports.model import ExplorationReport, FamilyReport, ViolationReport
from kubewright.explore.runs.forks import run_forked
from kubewright.explore.runs.run import SimulatedRun
from kubewright.explore.runs.session import Session
from kubewright.explore.simulation.factories import OperatorPool

from .spec_dependencies import Dependency, Rule, related_fields, rules_of
from .spec_derived import derived_values
from .spec_fields import REMOVED, FieldSchema, fields_of, get_field, values_for, with_field
from .spec_trials import Outcome, Trial, TrialSession

if TYPE_CHECKING:
    from kubewright.explore.scenarios.scenarios import Scenario
    from kubewright.explore.simulation.factories import OperatorFactory

MAX_PAIRS = 6
"""Values of related fields that are tried for a value that is rejected."""


class SpecError(Exception):
    """The specs cannot be explored; the message says what to change."""


@dataclass(slots=True)
class FieldResult:
    """What was learned about one field."""

    name: str
    accepted: list[Any] = field(default_factory=list)
    rejected: list[Any] = field(default_factory=list)
    has_effect: bool = False

    def __str__(self) -> str:
        effect = "" if self.has_effect or not self.accepted else ", no value has an effect"
        return f"{self.name}: {len(self.accepted)} values accepted, {len(self.rejected)} rejected{effect}"


@dataclass(slots=True)
class SpecResult:
    """What was learned about the specs of the objects of a scenario."""

    fields: list[FieldResult] = field(default_factory=list)
    dependencies: list[Dependency] = field(default_factory=list)
    violations: list[ViolationReport] = field(default_factory=list)
    trials: int = 0
    is_exhausted: bool = False


OnTrial = Callable[[str, int], None]
"""Receives the field and the number of violations."""


def explore_specs(
    factory: OperatorFactory,
    scenarios: Sequence[Scenario],
    *,
    operator: str = "",
    tolerances: Sequence[str] = (),
    runs: int = 0,
    seconds: float = 0.0,
) -> ExplorationReport:
    """Explore the specs of all custom resources that scenarios apply, and return the report.

    `runs` and `seconds` are a budget; 0 is unlimited. Raises `SpecError` if there is nothing to explore.
    """
    started = time.monotonic()
    results: list[SpecResult] = []
    seen: set[tuple[str, str]] = set()
    for scenario in scenarios:
        for base in applied_objects(scenario):
            kind = (str(base.get("apiVersion")), str(base.get("kind")))
            if kind in seen:
                continue
            limits = (runs, seconds - (time.monotonic() - started) if seconds else 0.0)
            result: SpecResult | None = run_forked(_explorer(factory, scenario, base, tolerances, limits))
            if result is not None:
                seen.add(kind)
                results.append(result)
    if not seen:
        raise SpecError("the scenarios apply no custom resource with a spec; add an apply step with one")
    fields = [each for result in results for each in result.fields]
    trials = sum(each.trials for each in results)
    violations = [each for result in results for each in result.violations]
    return ExplorationReport(
        operator=operator,
        scenarios=[each.name for each in scenarios],
        families=[FamilyReport(name="specs", points=trials, runs=trials, violations=len(violations))],
        violations=violations,
        runs=trials,
        seconds=time.monotonic() - started,
        complete=not any(each.is_exhausted for each in results),
        notes=[
            *map(str, fields),
            *(f"learned: {each}" for result in results for each in result.dependencies),
        ],
    )


def _explorer(
    factory: OperatorFactory,
    scenario: Scenario,
    base: Mapping[str, Any],
    tolerances: Sequence[str],
    limits: tuple[int, float],
) -> Callable[[], SpecResult | None]:
    """Return a function for a process of its own, in which the clocks are simulated."""
    real_time = time.monotonic

    def explore() -> SpecResult | None:
        pool = OperatorPool(factory)
        run = SimulatedRun(pool, scenario, tolerances=tolerances)
        with Session(run) as session:
            pool.prepare(2)
            trials = TrialSession(session, scenario)
            schema = _spec_schema(trials.definitions, base)
            if schema is None:
                return None
            deadline = real_time() + limits[1] if limits[1] else 0.0
            is_exhausted = _budget(limits[0], deadline, real_time)
            return _SpecExplorer(trials, scenario, base, schema, run.tolerances, is_exhausted).explore()

    return explore


def _budget(runs: int, deadline: float, clock: Callable[[], float]) -> Callable[[int], bool]:
    return lambda done: bool(runs and done >= runs) or bool(deadline and clock() > deadline)


def applied_objects(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the objects that a scenario applies before it needs a cluster."""
    recorder = _Recorder()
    try:
        asyncio.run(_record(scenario, recorder))
    except Exception:
        # Steps that need the cluster end the recording; what was applied before is known.
        return recorder.objects
    return recorder.objects


async def _record(scenario: Scenario, recorder: _Recorder) -> None:
    await scenario(recorder)  # type: ignore[arg-type] # a step that it lacks ends the recording


class _Recorder:
    """Steps that do nothing but record the applied objects."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []

    async def apply(self, obj: Any, *, namespace: str | None = None) -> Any:
        from kubewright.client.patches import to_dict

        data = copy.deepcopy(dict(to_dict(obj)))
        if namespace:
            data.setdefault("metadata", {})["namespace"] = namespace
        gvk = getattr(type(obj), "gvk", None)
        if gvk is not None:
            data.setdefault("apiVersion", gvk.api_version)
            data.setdefault("kind", gvk.kind)
        self.objects.append(data)
        return obj

    async def patch(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    async def delete(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    async def wait(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    async def advance(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


def _spec_schema(
    definitions: Sequence[Mapping[str, Any]], base: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the schema of the spec of a custom resource; `None` for other kinds."""
    group, _, version = str(base.get("apiVersion", "")).rpartition("/")
    for each in definitions:
        spec = each["spec"]
        if (spec["group"], spec["names"]["kind"]) != (group, base.get("kind")):
            continue
        for found in spec["versions"]:
            if found["name"] == version:
                schema: Mapping[str, Any] = found["schema"]["openAPIV3Schema"]["properties"].get("spec") or {}
                return schema if schema.get("properties") else None
    return None


class _SpecExplorer:
    """Tries the values of all fields of one object."""

    def __init__(
        self,
        trials: TrialSession,
        scenario: Scenario,
        base: Mapping[str, Any],
        schema: Mapping[str, Any],
        tolerances: Sequence[str],
        is_exhausted: Callable[[int], bool],
    ) -> None:
        self.trials = trials
        self.scenario = scenario
        self.base = base
        self.fields = list(fields_of(schema))
        self.rules: list[Rule] = list(rules_of(schema))
        self.tolerances = tolerances
        self.is_exhausted = is_exhausted
        self.result = SpecResult()
        self._own = f"{base['kind']}."
        self._found: dict[tuple[str, str], int] = {}
        """Index of the violation of each rule and field; other values of the field only count."""
        self._field = ""
        self._healthy: NormalisedState = {}
        self._ignores_failure = False
        """Whether the status of the original object reports a failure, so that a failure means nothing."""

    def explore(self) -> SpecResult:
        """Explore all fields."""
        trial = self._execute([self.base])
        (outcome, *_) = trial.outcomes or [Outcome(rejection="the run ended before the first step")]
        self._ignores_failure = bool(outcome.failure)
        outcome.failure = ""  # without other controllers, an object may never become ready
        if not outcome.is_healthy or trial.findings:
            reason = outcome.rejection or "; ".join(
                [*outcome.errors, *(f"{name}: {message}" for name, message in trial.findings)]
            )
            self._report("the object of the scenario is not handled", reason or "no convergence", [self.base])
            return self.result
        self._healthy = outcome.state
        for each in self.fields:
            if self.is_exhausted(self.result.trials):
                self.result.is_exhausted = True
                break
            self._explore_field(each)
        return self.result

    def _execute(self, specs: Sequence[Mapping[str, Any]], problem: str = "") -> Trial:
        self.result.trials += 1
        trial = self.trials.execute(specs, problem)
        if self._ignores_failure:
            for each in trial.outcomes:
                each.failure = ""
        return trial

    def _explore_field(self, target: FieldSchema) -> None:
        self._field = str(target)
        found = FieldResult(self._field)
        self.result.fields.append(found)
        states: list[tuple[dict[str, Any], str, NormalisedState]] = []
        current = get_field(self.base, target.path)
        values = values_for(target, current)
        values += [each for each in derived_values(current, self._healthy) if each not in values]
        for value in values:
            changed = with_field(self.base, target.path, value)
            label = f"{target}={value!r}" if value is not REMOVED else f"{target} removed"
            outcome = self._try(changed, label)
            if outcome.rejection:
                found.rejected.append(value)
                self._learn(target, value, outcome.rejection)
                continue
            found.accepted.append(value)
            if self._effect(outcome.state):
                found.has_effect = True
            if outcome.is_healthy:
                states.append((changed, label, outcome.state))
                found.has_effect |= self._create(changed, label, outcome.state)
        if len(states) > 1:
            self._walk(target, states)

    def _try(self, changed: dict[str, Any], label: str) -> Outcome:
        """Apply a change and the original spec again, and check what happened."""
        specs = [self.base, changed, self.base]
        trial = self._execute(specs)
        if len(trial.outcomes) < 2:
            return Outcome(rejection="the run ended")
        outcome = trial.outcomes[1]
        if outcome.rejection:
            return outcome
        problems = list(self._problems(trial, outcome))
        for rule, message in problems:
            self._report(rule, f"{label}: {message}", specs)
        return outcome

    def _create(self, changed: dict[str, Any], label: str, expected: NormalisedState) -> bool:
        """Create an object with a changed spec; return whether the value has an effect."""
        trial = self._execute([changed])
        if not trial.outcomes or trial.outcomes[0].rejection:
            return False  # a rule for new objects only
        outcome = trial.outcomes[0]
        for rule, message in self._problems(trial, outcome):
            self._report(rule, f"created with {label}: {message}", [changed])
        if not outcome.is_healthy:
            return True
        different = differences(outcome.state, expected, self.tolerances)
        if different:
            text = "; ".join(map(str, different[:3]))
            self._report(
                "the state depends on earlier values",
                f"changed to {label}, compared with an object that was created with it: {text}",
                [self.base, changed],
            )
        return self._effect(outcome.state)

    def _problems(self, trial: Trial, outcome: Outcome) -> Iterator[tuple[str, str]]:
        for name, message in trial.findings:
            if name != "exception":
                yield name, message
        if not outcome.is_converged:
            yield "convergence", "accepted by the API server, and the operator does not converge"
        elif outcome.errors:
            yield (
                "reconcile fails",
                f"accepted by the API server, and the operator fails: {outcome.errors[0]}",
            )
        if not outcome.is_healthy and outcome.deleted:
            yield "healthy objects are destroyed", f"the operator deleted {', '.join(outcome.deleted)}"
        if len(trial.outcomes) > 2:
            back = differences(self._healthy, trial.outcomes[2].state, self.tolerances)
            if back:
                yield "the change back does not restore", "; ".join(map(str, back[:3]))

    def _effect(self, state: NormalisedState) -> bool:
        """Whether a state differs from the healthy one by more than the spec of the object."""
        return any(
            not (each.object.startswith(self._own) and each.path.startswith("spec"))
            for each in differences(self._healthy, state, self.tolerances)
        )

    def _learn(self, target: FieldSchema, value: Any, rejection: str) -> None:
        """Find another field that has to change together with a value that is rejected."""
        tried = 0
        for other, reason in related_fields(target, self.fields, self.rules, rejection):
            for other_value in values_for(other, get_field(self.base, other.path)):
                if tried >= MAX_PAIRS or self.is_exhausted(self.result.trials):
                    return
                tried += 1
                changed = with_field(with_field(self.base, target.path, value), other.path, other_value)
                label = f"{target}={value!r} with {other}={other_value!r}"
                if not self._try(changed, label).rejection:
                    self.result.dependencies.append(
                        Dependency(str(target), value, str(other), other_value, reason)
                    )
                    return

    def _walk(
        self, target: FieldSchema, states: Sequence[tuple[dict[str, Any], str, NormalisedState]]
    ) -> None:
        """Apply all healthy values in one run: the state must not depend on the values before."""
        specs = [self.base, *(changed for changed, _, _ in states), self.base]
        trial = self._execute(specs)
        expected = [*((label, state) for _, label, state in states), (f"{target} restored", self._healthy)]
        for outcome, (label, state) in zip(trial.outcomes[1:], expected, strict=False):
            if outcome.rejection or not outcome.is_converged:
                return  # a transition rule, or reported for the single change
            different = differences(state, outcome.state, self.tolerances)
            if different:
                text = "; ".join(map(str, different[:3]))
                self._report("the state depends on earlier values", f"{label}: {text}", specs)
                return

    def _report(self, rule: str, message: str, specs: Sequence[Mapping[str, Any]]) -> None:
        key = (rule, self._field)
        known = self._found.get(key)
        if known is not None:
            violations = self.result.violations
            violations[known] = replace(violations[known], count=violations[known].count + 1)
            return
        self._found[key] = len(self.result.violations)
        trial = self.trials.execute(specs, f"{rule}: {message}")
        for each in trial.reports:
            self.result.violations.append(
                replace(each, rule=rule, problems=[message], test=_scenario_text(self.scenario, specs))
            )


def _scenario_text(scenario: Scenario, specs: Sequence[Mapping[str, Any]]) -> str:
    """Return a YAML scenario that repeats a sequence of specs."""
    import yaml

    steps: list[dict[str, Any]] = []
    for each in specs:
        steps += [{"apply": dict(each)}, {"advance": "10m"}]
    text = "# a scenario that repeats it\n"
    text += yaml.safe_dump({"name": f"{scenario.name}-specs", "steps": steps}, sort_keys=False)
    return text
