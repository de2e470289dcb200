"""`Framework`: runs the plug-ins of one profile at the extension points.

A plug-in belongs to an extension point if it implements the method, and the profile does not disable it
there. Plug-ins run in the order of the profile. At most extension points the first rejection decides; Score
adds up the weighted scores of all plug-ins. An exception of a plug-in becomes a `PluginError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from kubewright.workloads.scheduler.state.node_info import NodeInfo
from kubewright.workloads.scheduler.state.pod_info import PodInfo

from .cluster_events import WILDCARD, ClusterEvent
from .cycle_state import CycleState
from .handle import Handle
from .plugin import MAX_NODE_SCORE, Plugin, PostFilterResult
from .profile import Profile, ProfileError
from .status import Code, Diagnosis, SchedulingStatus
from .waiting_pods import WaitingPod

logger = logging.getLogger(__name__)

HOOKS = (
    "sort_key", "pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "score",
    "normalize_scores", "reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind", "add_pod",
    "remove_pod",
)  # fmt: skip


class PluginError(Exception):
    """A plug-in raised an exception, or returned a status that its extension point does not allow."""


class Framework:
    """The plug-ins of a profile."""

    def __init__(self, profile: Profile, handle: Handle) -> None:
        from kubewright.workloads.scheduler.plugins import DEFAULT_PLUGINS, DEFAULT_WEIGHTS

        self.profile = profile
        self.handle = handle
        handle.framework = self
        classes = _select(profile, DEFAULT_PLUGINS)
        unknown = {*profile.weights, *profile.plugin_args} - {cls.name for cls in classes}
        if unknown:
            raise ProfileError(
                f"profile {profile.scheduler_name!r}: unknown or disabled plug-in {min(unknown)!r}; "
                "add its class to `plugins`"
            )
        self.plugins: dict[str, Plugin] = {}
        for cls in classes:
            try:
                self.plugins[cls.name] = cls(handle, **profile.plugin_args.get(cls.name, {}))
            except TypeError as error:
                raise ProfileError(
                    f"profile {profile.scheduler_name!r}: plug-in {cls.name!r}: {error}"
                ) from error
        self._by_hook: dict[str, list[Plugin]] = {hook: self._with_hook(hook) for hook in HOOKS}
        if len(self._by_hook["sort_key"]) != 1:
            raise ProfileError(f"profile {profile.scheduler_name!r} needs exactly one QueueSort plug-in")
        if not self._by_hook["bind"]:
            raise ProfileError(f"profile {profile.scheduler_name!r} needs a Bind plug-in")
        weights = {**DEFAULT_WEIGHTS, **profile.weights}
        self._scorers = [
            (plugin, weights.get(plugin.name, 1), plugin in self._by_hook["normalize_scores"])
            for plugin in self._by_hook["score"]
        ]
        self.events: dict[str, tuple[ClusterEvent, ...]] = {
            name: tuple(plugin.events()) for name, plugin in self.plugins.items()
        }

    def _with_hook(self, hook: str) -> list[Plugin]:
        disabled = {name for name in self.profile.disabled if name.endswith(f".{hook}")}
        return [
            plugin
            for plugin in self.plugins.values()
            if plugin.implements(hook) and f"{plugin.name}.{hook}" not in disabled
        ]

    @property
    def name(self) -> str:
        """The scheduler name of the profile."""
        return self.profile.scheduler_name

    @property
    def sort_key(self) -> Callable[[Any], Any]:
        """Key of the active queue."""
        return self._by_hook["sort_key"][0].sort_key

    @property
    def has_scorers(self) -> bool:
        """Whether there are Score plug-ins."""
        return bool(self._scorers)

    @property
    def has_post_filters(self) -> bool:
        """Whether there are PostFilter plug-ins."""
        return bool(self._by_hook["post_filter"])

    def plugins_for(self, event: ClusterEvent) -> set[str]:
        """Return the plug-ins that have registered an event."""
        return {
            name
            for name, registered in self.events.items()
            if any(each.includes(event) for each in registered)
        }

    # Queue

    def pre_enqueue(self, pod: PodInfo) -> SchedulingStatus | None:
        """Return the first rejection."""
        for plugin in self._by_hook["pre_enqueue"]:
            status = plugin.pre_enqueue(pod)
            if status is not None:
                status.plugin = plugin.name
                return status
        return None

    # Scheduling cycle

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, SchedulingStatus | None, set[str]]:
        """Return the node names to consider, a rejection, and the plug-ins that restricted the nodes."""
        names: frozenset[str] | None = None
        restricting: set[str] = set()
        rejection: SchedulingStatus | None = None
        for plugin in self._by_hook["pre_filter"]:
            result = self._call(plugin, plugin.pre_filter, state, pod, nodes)
            if result is None:
                continue
            if isinstance(result, SchedulingStatus):
                if result.code is Code.SKIP:
                    state.skip_filter.add(plugin.name)
                    continue
                result.plugin = plugin.name
                if result.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE or not result.is_rejected:
                    return None, result, restricting
                # Other plug-ins may find that the pod is unresolvable, which saves a preemption attempt.
                rejection = rejection or result
                continue
            restricting.add(plugin.name)
            names = result if names is None else names & result
            if not names:
                reason = f"node(s) didn't satisfy plugin(s) {_go_list(restricting)} simultaneously"
                if len(restricting) == 1:
                    reason = f"node(s) didn't satisfy plugin {plugin.name}"
                return None, SchedulingStatus.unresolvable(reason), restricting
        return names, rejection, restricting

    def filters_for(self, state: CycleState) -> list[Plugin]:
        """Return the Filter plug-ins that PreFilter has not skipped."""
        skipped = state.skip_filter
        return [plugin for plugin in self._by_hook["filter"] if plugin.name not in skipped]

    def filter(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Sequence[Plugin] | None = None
    ) -> SchedulingStatus | None:
        """Return the rejection of the first Filter plug-in that rejects a node."""
        for plugin in self.filters_for(state) if plugins is None else plugins:
            try:
                status = plugin.filter(state, pod, node)
            except Exception as error:
                raise _plugin_error(plugin, error) from error
            if status is not None:
                status.plugin = plugin.name
                if not status.is_rejected:
                    raise PluginError(
                        f"running {plugin.name!r} filter plugin: {status.message or status.code.value}"
                    )
                return status
        return None

    def filter_with_nominated_pods(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Sequence[Plugin] | None = None
    ) -> SchedulingStatus | None:
        """Run Filter with the nominated pods of the same or a higher priority, and then without them.

        The pod has to fit in both cases: nominated pods may end up on another node.
        """
        nominator = self.handle.nominator
        if nominator:
            others = [
                other
                for other in nominator.pods_for(node.name)
                if other.priority >= pod.priority and other.uid != pod.uid
            ]
            if others:
                changed_state, changed_node = state.clone(), node.copy()
                for other in others:
                    changed_node.add_pod(other)
                    self.add_pod(changed_state, pod, other, changed_node)
                status = self.filter(changed_state, pod, changed_node, plugins)
                if status is not None:
                    return status
        return self.filter(state, pod, node, plugins)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Update PreFilter state for a pod that is added in a simulation."""
        for plugin in self._by_hook["add_pod"]:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Update PreFilter state for a pod that is removed in a simulation."""
        for plugin in self._by_hook["remove_pod"]:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod, removed, node)

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        """Call PostFilter plug-ins until one makes the pod schedulable."""
        nominated: str | None = None
        reasons: list[str] = []
        for plugin in self._by_hook["post_filter"]:
            try:
                result = await plugin.post_filter(state, pod, diagnosis)
            except Exception as error:
                raise _plugin_error(plugin, error) from error
            if result.status is None or result.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result
            if not result.status.is_rejected:
                return PostFilterResult(result.status)
            reasons += result.status.reasons
            if result.nominated_node is not None and nominated is None:
                nominated = result.nominated_node
        return PostFilterResult(SchedulingStatus(Code.UNSCHEDULABLE, *reasons), nominated)

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[int]:
        """Return the weighted sum of all Score plug-ins for each node."""
        skipped = state.skip_score
        for plugin in self._by_hook["pre_score"]:
            status = self._call(plugin, plugin.pre_score, state, pod, nodes)
            if status is None:
                continue
            if status.code is not Code.SKIP:
                raise PluginError(f"running PreScore plugin {plugin.name!r}: {status.message}")
            skipped.add(plugin.name)
        totals = [0] * len(nodes)
        for plugin, weight, normalizes in self._scorers:
            if plugin.name in skipped:
                continue
            try:
                score = plugin.score
                scores = [score(state, pod, node) for node in nodes]
                if normalizes:
                    scores = plugin.normalize_scores(state, pod, nodes, scores)
            except Exception as error:
                raise _plugin_error(plugin, error) from error
            if min(scores) < 0 or max(scores) > MAX_NODE_SCORE:
                raise PluginError(
                    f"plugin {plugin.name!r} returns an invalid score {max(scores)}, "
                    f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
                )
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        return totals

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Reserve with all plug-ins; the first rejection ends it, and the caller has to unreserve."""
        for plugin in self._by_hook["reserve"]:
            status: SchedulingStatus | None = self._call(plugin, plugin.reserve, state, pod, node_name)
            if status is not None:
                status.plugin = plugin.name
                return status
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Unreserve with all plug-ins, in reverse order."""
        for plugin in reversed(self._by_hook["unreserve"]):
            try:
                plugin.unreserve(state, pod, node_name)
            except Exception:
                logger.exception("unreserve failed", extra={"plugin": plugin.name, "pod": pod.key})

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | WaitingPod | None:
        """Return a rejection, or a waiting pod if plug-ins delay the binding."""
        timeouts: dict[str, float] = {}
        for plugin in self._by_hook["permit"]:
            status: SchedulingStatus | None = self._call(plugin, plugin.permit, state, pod, node_name)
            if status is None:
                continue
            status.plugin = plugin.name
            if status.code is not Code.WAIT:
                return status
            timeouts[plugin.name] = status.timeout
        if not timeouts:
            return None
        waiting = WaitingPod(pod, node_name, timeouts)
        self.handle.waiting_pods.add(waiting)
        return waiting

    # Binding cycle

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Run PreBind plug-ins one after another."""
        for plugin in self._by_hook["pre_bind"]:
            try:
                status = await plugin.pre_bind(state, pod, node_name)
            except Exception as error:
                return SchedulingStatus.from_error(_plugin_error(plugin, error))
            if status is not None:
                status.plugin = plugin.name
                return status
        return None

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> SchedulingStatus | None:
        """Bind with the first plug-in that does not skip."""
        for plugin in self._by_hook["bind"]:
            try:
                status = await plugin.bind(state, pod, node_name)
            except Exception as error:
                return SchedulingStatus.from_error(_plugin_error(plugin, error))
            if status is None or status.code is not Code.SKIP:
                if status is not None:
                    status.plugin = plugin.name
                return status
        return SchedulingStatus(Code.ERROR, "no Bind plug-in has bound the pod")

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Run PostBind plug-ins; errors are logged."""
        for plugin in self._by_hook["post_bind"]:
            try:
                await plugin.post_bind(state, pod, node_name)
            except Exception:
                logger.exception("post-bind failed", extra={"plugin": plugin.name, "pod": pod.key})

    @staticmethod
    def _call(plugin: Plugin, hook: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return hook(*arguments)
        except Exception as error:
            raise _plugin_error(plugin, error) from error


def _plugin_error(plugin: Plugin, error: Exception) -> PluginError:
    return PluginError(f"plugin {plugin.name!r} failed: {str(error) or type(error).__name__}")


def _go_list(names: set[str]) -> str:
    return f"[{' '.join(sorted(names))}]"


def _select(profile: Profile, defaults: Sequence[type[Plugin]]) -> list[type[Plugin]]:
    """Return the plug-in classes of a profile, in the order in which they run."""
    known = {cls.name for cls in defaults}
    replaced = {cls.name: cls for cls in profile.plugins if cls.name in known}
    disabled = set(profile.disabled)
    unknown = {name.partition(".")[0] for name in disabled} - known - {WILDCARD}
    unknown -= {cls.name for cls in profile.plugins}
    if unknown:
        raise ProfileError(
            f"profile {profile.scheduler_name!r} disables unknown plug-in {min(unknown)!r}; "
            f"expected one of {', '.join(sorted(known))}"
        )
    kept = [] if WILDCARD in disabled else [cls for cls in defaults if cls.name not in disabled]
    names = {cls.name for cls in kept}
    added = [cls for cls in profile.plugins if cls.name not in names]
    return [replaced.get(cls.name, cls) for cls in kept] + added
