"""Controller of CronJobs (`cronjob-controller`).

- `controller`: `add_cronjob_controller` and the reconciler
- `missed_times`: which scheduled time is due, and when the next one is
"""

from .controller import add_cronjob_controller

__all__ = ["add_cronjob_controller"]
