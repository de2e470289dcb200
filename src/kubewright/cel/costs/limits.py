"""Limits that Kubernetes sets for CEL: cost of expressions and size of data.

One unit of cost is roughly 50 ns of the reference implementation. Static limits apply to the estimate made
from declared sizes before an expression is accepted; runtime limits apply to the actual cost of an
evaluation. Without a bound in the schema, the maximum request body (3 MiB) is the bound.
"""

from __future__ import annotations

from typing import Final

PER_CALL_LIMIT: Final = 1_000_000
"""Runtime cost of one expression."""
RUNTIME_COST_BUDGET: Final = 10_000_000
"""Runtime cost of all rules for one custom resource, or of one admission policy binding."""
MATCH_CONDITIONS_BUDGET: Final = 2_500_000
"""Runtime cost of all match conditions of one webhook or policy."""
STATIC_EXPRESSION_LIMIT: Final = 10_000_000
"""Estimated worst-case cost of one rule of a CRD."""
STATIC_CRD_LIMIT: Final = 100_000_000
"""Estimated worst-case cost of all rules of one CRD version."""
MAX_MESSAGE_SIZE: Final = 5 * 1024
"""Bytes of a message made by a messageExpression."""

MAX_EXPRESSION_SIZE: Final = 100_000
"""Code points of an expression."""
MAX_NESTING: Final = 250
"""Depth of an expression."""

MAX_REQUEST_SIZE: Final = 3 * 1024 * 1024
MAX_UINT64: Final = 2**64 - 1

MAX_STRING_SIZE: Final = MAX_REQUEST_SIZE - 2
MAX_DURATION_SIZE: Final = 32
MAX_DATETIME_SIZE: Final = 32
DATE_SIZE: Final = 12
MIN_DURATION_SIZE: Final = 3
MIN_DATETIME_SIZE: Final = 21
MIN_STRING_SIZE: Final = 2
MIN_BOOL_SIZE: Final = 4
MIN_NUMBER_SIZE: Final = 1
MIN_CONTAINER_SIZE: Final = 2


def max_items(min_item_size: int) -> int:
    """Return how many list items of this serialized size fit into a request."""
    return (MAX_REQUEST_SIZE - 2) // (min_item_size + 1)


def max_properties(min_value_size: int) -> int:
    """Return how many map entries with values of this serialized size fit into a request."""
    return (MAX_REQUEST_SIZE - 2) // (min_value_size + 6)


def max_cardinality(min_size: int) -> int:
    """Return how often data of this serialized size can occur in a request."""
    return MAX_REQUEST_SIZE // (min_size + 1)
