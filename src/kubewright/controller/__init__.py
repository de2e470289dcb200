"""Controllers: level-triggered reconciliation, and what reconcilers need.

In layers, lowest first; each works without those above it:

- `queue`: each key once, by priority, never two workers on one; `rate_limiters`: how long failures wait
- `request`: what a reconciler is asked and answers
- `predicates`: which changes matter; `handlers`: what they ask for; `sources`: where they come from
- `controller`: `Controller`, the loop of workers; `builder`: `ControllerBuilder`, how one is described
- `timers`, `daemons`: functions that are called, or run, for every object
- `finalizers`: cleaning up before an object goes; `desired`: the objects that an owner should have

Metrics (`queue_metrics`, `controller_metrics`) have the names that client-go and controller-runtime use.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
