"""The tutorial's CronJob: two versions, webhooks in front of both, and a controller behind them.

- `v1`, `v2`: the kind in its two versions; `conversion`: the way between them
- `schedule`: cron's notation
- `webhooks`: what is filled in and what is refused
- `controller`: what is done
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kubewright import Operator
from kubewright.api.times import now as utc_now

from . import controller, webhooks
from .conversion import converter


def make_operator(now: Callable[[], datetime] = utc_now) -> Operator:
    """The operator, going by a clock."""
    made = Operator("cronjob")
    controller.add_to(made, now)
    webhooks.add_to(made)
    made.convert(converter)
    return made


operator = make_operator()
