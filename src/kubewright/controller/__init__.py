"""Controllers: level-triggered reconciliation of objects.

    controller = (
        ControllerBuilder(manager)
        .for_(Guestbook)
        .owns(Deployment)
        .complete(reconcile)
    )

Metrics (`queue_metrics`, `controller_metrics`) have the names of client-go and controller-runtime.

- `builder`: builder of controllers: the kinds that are reconciled, owned and watched, and the options
- `causes`: why a request was queued: the changes, requeues and retries that led to a reconcile
- `children`: the objects that an owner should have
- `controller`: the reconcile loop: sources add requests to a queue, workers call the reconciler
- `controller_metrics`: metrics of controllers, with the names of controller-runtime; every series exists from
  the start
- `daemons`: a background task for each object of a kind
- `errors`: errors in the declaration of a controller
- `event_handlers`: functions, plain or async, that return the requests to enqueue for a
  `ObjectChange`
- `failures`: failures of a reconcile: the exceptions of a controller, and how an error is classified and
  shown
- `finalizers`: finalizers with cleanup functions: external cleanup before an object is deleted
- `hot_loops`: detection of reconciles that trigger themselves: a write in each reconcile, or a very short
  requeue
- `manager_protocol`: the parts of a manager that controllers use; `kubewright.manager.Manager` implements
  them
- `object_readers`: reading the object of a request before a reconciler is called with it
- `predicates`: filters that decide which changes cause a reconcile
- `queues`: work queues and rate limiters
- `request`: the argument and the return value of a reconciler
- `sources`: sources of requests
- `timers`: a function that is called periodically for each object of a kind
- `write_conflicts`: writers that undo the writes of each other: detection of controllers in conflict
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
