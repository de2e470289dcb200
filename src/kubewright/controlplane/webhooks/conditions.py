"""Match conditions of a webhook: CEL expressions that decide whether it is called."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from kubewright import cel
from kubewright.api.field_errors import aggregate

if TYPE_CHECKING:
    from kubewright.controlplane.admission.policies.expressions import Evaluation


class MatchConditions:
    """Match conditions of one webhook, compiled on first use."""

    def __init__(self, conditions: Sequence[dict[str, str]]) -> None:
        self._expressions = [condition.get("expression") or "" for condition in conditions]
        self._programs: list[cel.Program | Exception] | None = None

    async def decide(self, evaluation: Evaluation) -> bool | str:
        """Return whether all conditions hold, or an error message; one false condition is decisive."""
        from kubewright.controlplane.admission.policies.expressions import (
            EvaluationError,
            OutOfBudget,
            compiled,
        )

        if self._programs is None:
            self._programs = [compiled(_environment(), text) for text in self._expressions]
        problems: list[str] = []
        for program in self._programs:
            try:
                if isinstance(program, Exception):
                    raise program
                if await evaluation.value(program) is False:
                    return False
            except OutOfBudget as error:
                return str(error)
            except EvaluationError as error:
                problems.append(str(error))
        return aggregate(problems) if problems else True


@cache
def _environment() -> cel.Env:
    from kubewright.controlplane.admission.policies.expressions import environment

    return environment()
