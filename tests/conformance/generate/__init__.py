"""Cases that are built from descriptions of the built-in kinds.

`kinds/*.yaml` describes each kind: a minimal object, variants with many fields, combinations of fields to
try, updates, statuses. The modules turn the descriptions into cases:

- `builtin_kinds`: reads the descriptions
- `field_values`: every field of a variant with invalid, empty and missing values
- `updates`: changes of every field, status and scale
- `requests`: reads, writes, patches, apply, watches and deletes of every kind
- `custom_resources`: schemas, values and CEL rules of custom resources
- `pod_security`: pods in namespaces with each Pod Security level

What is stored is the expanded case, so a replay needs none of this.
"""

from __future__ import annotations

from tests.conformance.cases import Case
from tests.conformance.generate.builtin_kinds import load_kinds
from tests.conformance.generate.custom_resources import custom_resource_cases
from tests.conformance.generate.field_values import field_value_cases
from tests.conformance.generate.pod_security import pod_security_cases
from tests.conformance.generate.requests import request_cases
from tests.conformance.generate.updates import update_cases


def generate_cases() -> list[Case]:
    """Build every generated case, sorted by name."""
    kinds = load_kinds()
    cases = [
        case
        for kind in kinds
        for build in (field_value_cases, update_cases, request_cases)
        for case in build(kind)
    ]
    cases += [*custom_resource_cases(), *pod_security_cases()]
    return sorted(cases, key=lambda case: case.name)
