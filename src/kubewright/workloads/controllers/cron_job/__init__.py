"""Controller of CronJobs (`cronjob-controller`).

- `controller`: `add_cronjob_controller` and the reconciler
"""

from .controller import add_cronjob_controller as add_cronjob_controller
