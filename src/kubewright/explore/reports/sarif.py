"""Reports as SARIF 2.1.0, the format in which code hosts show findings beside the code.

A violation is a result at the scenario that shows it; its fingerprint does not contain numbers and generated
names, so that it is recognised in the next report.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kubewright import __version__

from .model import ExplorationReport, ViolationReport


def sarif_of(report: ExplorationReport) -> str:
    """Return a report as SARIF."""
    rules = sorted({each.rule for each in report.violations})
    driver = {
        "name": "kubewright explore",
        "semanticVersion": __version__,
        "rules": [{"id": each, "shortDescription": {"text": each}} for each in rules],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": report.complete}],
        "results": [_result(each) for each in report.violations],
    }
    data = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(data, indent=2) + "\n"


def _result(violation: ViolationReport) -> dict[str, Any]:
    file, _, line = violation.source.partition(":")
    number = line.split()[0] if line else ""
    location: dict[str, Any] = {"artifactLocation": {"uri": file}}
    location["region"] = {"startLine": int(number) if number.isdecimal() else 1}
    explanation = "; ".join(violation.explanation) or "no fault is needed"
    text = f"{violation.problems[0]} ({explanation})\nReplay: {violation.replay}"
    digest = hashlib.sha256("\0".join((violation.scenario, violation.rule, violation.key)).encode())
    return {
        "ruleId": violation.rule,
        "level": "error",
        "message": {"text": text},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"violation/v1": digest.hexdigest()},
    }
