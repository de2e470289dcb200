"""`PodControl`: steers the pods of simulated nodes from a test.

    nodes.pods.crash("app=web")                        # the containers exit with code 1, now
    nodes.pods.set("app=web", exit_code=1)             # and this one exits after every start
    nodes.pods.set_ready("app=web", False)
    nodes.pods.on_exec("web-0", lambda request: "hello")

A selector is a name (`web-0` or `shop/web-0`), a label selector (`app=web`), a mapping of labels, or a
function of the pod. Rules also apply to pods that are created later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from kubewright.workloads.nodes.containers.runtime import (
    ContainerExit,
    ExecHandler,
    PortHandler,
    SimulatedRuntime,
)
from kubewright.workloads.nodes.objects import Object

from .behaviour import BehaviourRule, ContainerBehaviour, PodSelector

if TYPE_CHECKING:
    from kubewright.workloads.nodes.simulation import SimulatedNodes

    from .pod_worker import PodWorker

Selector = str | Mapping[str, str] | Callable[[Object], bool] | None
_FIELDS: Final = frozenset(each.name for each in fields(ContainerBehaviour)) | {"oom", "keep_running"}


class PodControl:
    """Steers pods by selectors."""

    def __init__(self, nodes: SimulatedNodes) -> None:
        self._nodes = nodes

    def matching(self, selector: Selector = None, *, namespace: str = "") -> list[PodWorker]:
        """Return the pods on simulated nodes that a selector matches."""
        chosen = PodSelector.of(selector, namespace)
        return [worker for worker in self._nodes.workers.values() if chosen.matches(worker.pod)]

    def crash(
        self, selector: Selector = None, *, namespace: str = "", container: str = "", exit_code: int = 1
    ) -> int:
        """Let the main containers, or one container, exit now; return the number of pods."""
        return self._exit(selector, namespace, container, ContainerExit(exit_code))

    def complete(self, selector: Selector = None, *, namespace: str = "", container: str = "") -> int:
        """Let containers exit with code 0 now; return the number of pods."""
        return self._exit(selector, namespace, container, ContainerExit(0))

    def kill_out_of_memory(
        self, selector: Selector = None, *, namespace: str = "", container: str = ""
    ) -> int:
        """Let the kernel kill containers: exit code 137, reason OOMKilled."""
        return self._exit(selector, namespace, container, ContainerExit(137, "OOMKilled"))

    def _exit(self, selector: Selector, namespace: str, container: str, result: ContainerExit) -> int:
        workers = self.matching(selector, namespace=namespace)
        for worker in workers:
            worker.stops.exit(container, result)
        return len(workers)

    def evict(
        self,
        selector: Selector = None,
        *,
        namespace: str = "",
        message: str = "The node was low on resource: memory. ",
    ) -> int:
        """Evict pods as a kubelet does under node pressure: phase Failed, reason Evicted."""
        workers = [each for each in self.matching(selector, namespace=namespace) if not each.is_finished]
        for worker in workers:
            worker.evict(message)
        return len(workers)

    def set_ready(
        self, selector: Selector, ready: bool | None = True, *, namespace: str = "", container: str = ""
    ) -> None:
        """Let readiness probes succeed or fail, now and later; `None` removes the rule."""
        text = None if ready is None else "" if ready else "HTTP probe failed with statuscode: 503"
        self.set(selector, namespace=namespace, container=container, fail_readiness=text)

    def set(self, selector: Selector, *, namespace: str = "", container: str = "", **changes: object) -> None:
        """Set fields of `ContainerBehaviour` for existing and later pods; `None` removes a field."""
        unknown = sorted(name for name in changes if name not in _FIELDS)
        if unknown:
            raise TypeError(f"unknown field {unknown[0]!r}; expected one of {', '.join(sorted(_FIELDS))}")
        chosen = PodSelector.of(selector, namespace)
        rules = self._nodes.resolver.rules
        rule = next((each for each in rules if each.selector == chosen and each.container == container), None)
        if rule is None:
            rule = BehaviourRule(chosen, container)
            rules.append(rule)
        for name, value in changes.items():
            if value is None:
                rule.changes.pop(name, None)
            else:
                rule.changes[name] = value
        if not rule.changes:
            rules.remove(rule)
        self._refresh(chosen)

    def reset(self, selector: Selector = None, *, namespace: str = "") -> None:
        """Remove all rules of a selector, or all rules."""
        chosen = PodSelector.of(selector, namespace)
        rules = self._nodes.resolver.rules
        rules[:] = [each for each in rules if selector is not None and each.selector != chosen]
        self._refresh(chosen)

    def _refresh(self, chosen: PodSelector) -> None:
        for worker in self._nodes.workers.values():
            if chosen.matches(worker.pod):
                worker.refresh()

    def write_log(
        self,
        selector: Selector,
        text: str,
        *,
        namespace: str = "",
        container: str = "",
        stream: str = "stdout",
    ) -> None:
        """Append lines to the logs of the current containers; clients that follow receive them."""
        for worker in self.matching(selector, namespace=namespace):
            for each in worker.containers:
                wanted = each.name == container if container else each.kind == "main"
                if wanted and each.run is not None:
                    log = self._nodes.runtime.log(each.run)
                    log.write(text, self._nodes.clock.date(), stream)

    def set_logs(self, selector: Selector, text: str, *, namespace: str = "", container: str = "") -> None:
        """Set what containers write at their start, and append it to the logs of the current ones."""
        self.set(selector, namespace=namespace, container=container, logs=text)
        self.write_log(selector, text, namespace=namespace, container=container)

    def on_exec(
        self, selector: Selector, handler: ExecHandler, *, namespace: str = "", container: str = ""
    ) -> None:
        """Call a function, plain or async, for commands that clients run in containers."""
        self._simulated().on_exec(PodSelector.of(selector, namespace), container, handler)

    def on_port_forward(
        self, selector: Selector, target: PortHandler | int, *, port: int = 0, namespace: str = ""
    ) -> None:
        """Serve connections to a port of pods (0: every port) by a function or a local port."""
        self._simulated().on_port_forward(PodSelector.of(selector, namespace), port, target)

    def _simulated(self) -> SimulatedRuntime:
        runtime = self._nodes.runtime
        if not isinstance(runtime, SimulatedRuntime):
            raise TypeError(f"{type(runtime).__name__} runs commands itself; handlers are not called")
        return runtime
