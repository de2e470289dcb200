"""DaemonSets: one pod on each node that matches.

- `controller`: what is done for a changed DaemonSet or node
- `placement`: the nodes on which pods run, and the pods for them
- `rollout`: which pods a rolling update replaces
- `history`: ControllerRevisions
"""

from .controller import add_daemon_set_controller as add_daemon_set_controller
