"""Controllers: level-triggered reconciliation of objects.

    controller = (
        ControllerBuilder(manager)
        .for_(Guestbook)
        .owns(Deployment)
        .complete(reconcile)
    )

Modules, lowest layer first; each can be used without those below it in this list:

- `ownership`: `Ownership`, which requests this process reconciles when replicas share the work
- `queue`: work queue with deduplication and priorities; `rate_limiters`: delays of retries
- `causes`: `Cause`, why a request was queued
- `request`: `Request`, `Result`, `TerminalError`
- `predicates`: filters of changes; `event_handlers`: from a change to requests; `sources`: where changes come
  from
- `failures`: how errors of a reconcile are classified and shown
- `controller`: `Controller`, the reconcile loop; `builder`: `ControllerBuilder`
- `manager_protocol`: what a builder needs of a manager
- `timers`, `daemons`: functions that are called periodically, or run in the background, for each object
- `finalizers`: cleanup before an object is deleted; `desired_state`: the objects that an owner should have;
  `object_sets`: the same for any kinds and namespaces, with an inventory; `write_conflicts`: writers that
  undo the writes of each other

Metrics (`queue_metrics`, `controller_metrics`) have the names of client-go and controller-runtime.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
