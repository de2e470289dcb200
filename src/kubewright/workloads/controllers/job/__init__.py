"""Controller of Jobs (`job-controller`).

- `reconciler`: one reconcile of a Job; `progress`: what it found; `tracking`: counting of finished pods
- `pod_creation`: pods from the template, with completion indexes; `ownership`: adoption, release, orphans
- `pod_states`: states of pods, and sets of completion indexes
- `policies`: pod failure policy and success policy
"""

from .reconciler import add_job_controller as add_job_controller
