"""The tutorial's CronJob: two versions, webhooks for both, and a controller.

- `v1`, `v2`: the kind in its two versions; `conversion`: conversion between them
- `schedule`: the cron syntax
- `webhooks`: defaulting and validation
- `controller`: the reconciler
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kubewright import Operator
from kubewright.api import now as utc_now

from . import controller, webhooks
from .conversion import converter


def make_operator(now: Callable[[], datetime] = utc_now) -> Operator:
    """Return the operator with a clock."""
    made = Operator("cronjob")
    controller.add_to(made, now)
    webhooks.add_to(made)
    made.convert(converter)
    return made


operator = make_operator()
