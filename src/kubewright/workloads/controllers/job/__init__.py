"""Controller of Jobs (`job-controller`).

- `controller`: `add_job_controller`, and which changes cause a reconcile
- `reconciler`: one reconcile of a Job; `progress`: what it found; `tracking`: counting of finished pods
- `pod_creation`: pods from the template, with completion indexes; `ownership`: adoption, release, orphans
- `policies`: pod failure policy and success policy; `backoff`: delays after failures
- `index_sets`: completion indexes as text; `pod_states`: states and annotations of pods
"""

from .controller import add_job_controller

__all__ = ["add_job_controller"]
