"""The process in which `versions` runs the previous version of an operator.

It reads an `OldVersionInput` from standard input and writes an `OldVersionResult` to standard output; what
the operator prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from .versions import OldVersionInput, OldVersionResult, known_texts


def main() -> None:
    """Run the previous version twice: until it is idle, and from there."""
    from kubewright.explore.simulation.factories import FactoryError, ModuleFactory
    from kubewright.recording.redaction import Redactor
    from kubewright.rehearse.snapshot import ClusterSnapshot

    from .declared_fakes import FakesError
    from .planner import PlanOptions, plan_operator

    given = msgspec.json.decode(sys.stdin.buffer.read(), type=OldVersionInput)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:0] = given.paths
    sys.path += given.extra_paths
    options = PlanOptions(
        assume=cast("Any", given.assume),
        service_account=given.service_account,
        quiet=given.quiet,
        limit=given.limit,
        redactor=Redactor(given.redaction_key),
        fakes=given.fakes,
    )
    snapshot = ClusterSnapshot(
        objects=[bytes(each) for each in given.objects],
        kubernetes_version=given.kubernetes_version,
        time=datetime.fromtimestamp(given.time, UTC),
        is_redacted=given.is_redacted,
    )
    try:
        first = plan_operator(ModuleFactory(given.reference), snapshot, options)
        second = plan_operator(ModuleFactory(given.reference), first.final, options)
    except (FactoryError, FakesError) as error:
        sys.exit(f"Error: {error}")
    result = OldVersionResult(
        objects=[msgspec.Raw(each) for each in first.final.objects],
        time=first.final.moment().timestamp(),
        known=known_texts(second.plan),
        errors=[*first.plan.errors, *map(str, first.plan.permissions)],
    )
    output.write(msgspec.json.encode(result))
    output.close()


if __name__ == "__main__":
    main()
