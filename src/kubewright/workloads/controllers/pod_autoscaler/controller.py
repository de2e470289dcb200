"""HorizontalPodAutoscalers: compute the number of replicas from metrics every 15 seconds, and set it."""

from __future__ import annotations

from kubewright.api.autoscaling.v1 import Scale
from kubewright.api.autoscaling.v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from kubewright.api.conditions import set_condition
from kubewright.api.core.v1 import Pod
from kubewright.api.errors import APIError
from kubewright.api.gvk import GroupVersionKind
from kubewright.api.selectors.label_selectors import Selector, SelectorError, parse_selector
from kubewright.client.errors import NoKindMatch
from kubewright.client.patches import has_changes
from kubewright.controller import ControllerBuilder, Request, Result, generation_changed
from kubewright.workloads.component_manager import ComponentManager
from kubewright.workloads.metrics_client import APIMetrics

from .metric_proposals import MetricProposals, Proposal, ProposalError
from .scaling_rules import ScalingHistory

SYNC_SECONDS = 15.0


class _ScaleError(Exception):
    """A reconcile ends early, after the status has been written."""


def add_horizontal_pod_autoscaler_controller(manager: ComponentManager) -> None:
    """Add the controller of HorizontalPodAutoscalers."""
    (
        ControllerBuilder[Request](manager, "horizontal-pod-autoscaler-controller")
        .for_(HorizontalPodAutoscaler, predicates=[generation_changed])
        .with_options(workers=5)
        .complete(AutoscalerReconciler(manager))
    )


class AutoscalerReconciler:
    """Reconciles HorizontalPodAutoscalers."""

    def __init__(self, manager: ComponentManager) -> None:
        self._manager = manager
        self._client = manager.client
        self._histories: dict[Request, ScalingHistory] = {}
        self._selectors: dict[Request, Selector] = {}

    async def reconcile(self, request: Request) -> Result | None:
        """Scale the target of an autoscaler, and update its status."""
        autoscaler = await self._client.get_or_none(
            HorizontalPodAutoscaler, request.name, namespace=request.namespace
        )
        if autoscaler is None:
            self._histories.pop(request, None)
            self._selectors.pop(request, None)
            return None
        if autoscaler.status is None:
            autoscaler.status = HorizontalPodAutoscalerStatus()
        try:
            await self._scale(autoscaler, request)
        except _ScaleError:
            pass
        if has_changes(autoscaler, part="status"):
            await self._client.update_status(autoscaler)
        return Result(requeue_after=SYNC_SECONDS)

    def _event(self, autoscaler: HorizontalPodAutoscaler, reason: str, message: str) -> None:
        self._manager.recorder.event(autoscaler, "Warning", reason, message)

    def _set(
        self, autoscaler: HorizontalPodAutoscaler, type_: str, status: bool, reason: str, message: str
    ) -> None:
        assert autoscaler.status is not None
        condition = HorizontalPodAutoscalerCondition(
            type=type_, status=str(status), reason=reason, message=message
        )
        set_condition(autoscaler.status, condition)

    async def _scale(self, autoscaler: HorizontalPodAutoscaler, request: Request) -> None:
        spec, status = autoscaler.spec, autoscaler.status
        assert spec is not None
        assert status is not None
        gvk, scale = await self._get_scale(autoscaler)
        current = (scale.spec.replicas if scale.spec is not None else None) or 0
        now = self._manager.now().timestamp()
        history = self._histories.setdefault(request, ScalingHistory(current, now))
        minimum = 1 if spec.min_replicas is None else spec.min_replicas
        maximum = spec.max_replicas or 0
        desired, reason = current, ""
        metrics: list[MetricStatus] | None = None
        if current == 0 and minimum != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(autoscaler, "ScalingActive", False, "ScalingDisabled", text)
        elif current > maximum:
            desired, reason = maximum, "Current number of replicas above Spec.MaxReplicas"
        elif current < minimum:
            desired, reason = minimum, "Current number of replicas below Spec.MinReplicas"
        else:
            try:
                proposed, description, metrics = await self._propose(autoscaler, scale, current)
            except _ScaleError:
                status.current_replicas = current
                raise
            if proposed > current:
                reason = f"{description} above target"
            elif proposed < current:
                reason = "All metrics below target"
            decision = history.decide(current, proposed, minimum, maximum, spec.behavior, now)
            self._set(autoscaler, "AbleToScale", True, *decision.able_to_scale)
            self._set(autoscaler, "ScalingLimited", decision.limited, *decision.limit)
            desired = decision.replicas
        if desired != current:
            await self._rescale(autoscaler, gvk, desired, reason)
            history.record_change(current, desired, now)
            status.last_scale_time = self._manager.now().replace(microsecond=0)
        status.current_replicas = current
        status.desired_replicas = desired
        status.current_metrics = metrics

    async def _get_scale(self, autoscaler: HorizontalPodAutoscaler) -> tuple[GroupVersionKind, Scale]:
        assert autoscaler.spec is not None
        target = autoscaler.spec.scale_target_ref
        assert target is not None
        gvk = GroupVersionKind.from_api_version(target.api_version or "v1", target.kind or "")
        try:
            scale = await self._client.scale(gvk, target.name or "", namespace=autoscaler.namespace)
        except (APIError, NoKindMatch) as error:
            self._event(autoscaler, "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            self._set(autoscaler, "AbleToScale", False, "FailedGetScale", text)
            raise _ScaleError from None
        text = "the HPA controller was able to get the target's current scale"
        self._set(autoscaler, "AbleToScale", True, "SucceededGetScale", text)
        return gvk, scale

    async def _propose(
        self, autoscaler: HorizontalPodAutoscaler, scale: Scale, current: int
    ) -> tuple[int, str, list[MetricStatus]]:
        """Return the largest proposal of all metrics, its description, and the status of the metrics."""
        assert autoscaler.spec is not None
        pods = await self._pods(autoscaler, scale)
        proposals = MetricProposals(
            self._manager,
            APIMetrics(self._client, self._manager.workloads.metrics, pods=self._selector_of(scale)),
            autoscaler,
            current,
            (scale.status.replicas if scale.status is not None else None) or 0,
            pods,
        )
        specs = autoscaler.spec.metrics or []
        found: list[Proposal] = []
        errors: list[ProposalError] = []
        for spec in specs:
            try:
                found.append(await proposals.propose(spec))
            except ProposalError as error:
                self._event(autoscaler, error.reason, str(error))
                errors.append(error)
        best = max(found, key=lambda each: each.replicas, default=None)
        if best is None or (errors and best.replicas < current):
            if errors:
                text = f"the HPA was unable to compute the replica count: {errors[0]}"
                self._set(autoscaler, "ScalingActive", False, errors[0].reason, text)
                summary = (
                    f"invalid metrics ({len(errors)} invalid out of {len(specs)}), "
                    f"first error is: {errors[0].summary}"
                )
                self._event(autoscaler, "FailedComputeMetricsReplicas", summary)
            raise _ScaleError
        text = f"the HPA was able to successfully calculate a replica count from {best.description}"
        self._set(autoscaler, "ScalingActive", True, "ValidMetricFound", text)
        return best.replicas, best.description, [each.status for each in found]

    async def _pods(self, autoscaler: HorizontalPodAutoscaler, scale: Scale) -> list[Pod]:
        """Return the pods of the target; the selector must not overlap with that of another autoscaler."""
        text = self._selector_of(scale)
        if not text:
            self._event(autoscaler, "SelectorRequired", "selector is required")
            message = "the HPA target's scale is missing a selector"
            self._set(autoscaler, "ScalingActive", False, "InvalidSelector", message)
            raise _ScaleError
        try:
            selector = parse_selector(text)
        except SelectorError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._event(autoscaler, "InvalidSelector", message)
            self._set(autoscaler, "ScalingActive", False, "InvalidSelector", message)
            raise _ScaleError from None
        request = Request.of(autoscaler)
        self._selectors[request] = selector
        pods = list(await self._client.list(Pod, namespace=autoscaler.namespace, labels=selector))
        others = [
            each
            for each, other in self._selectors.items()
            if each.namespace == request.namespace and any(other.matches(pod.metadata.labels) for pod in pods)
        ]
        if len(others) > 1:
            listed = " ".join(f"{{{each.namespace} {each.name}}}" for each in sorted(others))
            message = f"pods by selector {text} are controlled by multiple HPAs: [{listed}]"
            self._event(autoscaler, "AmbiguousSelector", message)
            self._set(autoscaler, "ScalingActive", False, "AmbiguousSelector", message)
            raise _ScaleError
        return pods

    @staticmethod
    def _selector_of(scale: Scale) -> str:
        return (scale.status.selector if scale.status is not None else None) or ""

    async def _rescale(
        self, autoscaler: HorizontalPodAutoscaler, gvk: GroupVersionKind, desired: int, reason: str
    ) -> None:
        assert autoscaler.spec is not None
        assert autoscaler.spec.scale_target_ref is not None
        name = autoscaler.spec.scale_target_ref.name or ""
        try:
            await self._client.scale(gvk, name, namespace=autoscaler.namespace, replicas=desired)
        except APIError as error:
            text = f"New size: {desired}; reason: {reason}; error: {error}"
            self._event(autoscaler, "FailedRescale", text)
            message = f"the HPA controller was unable to update the target scale: {error}"
            self._set(autoscaler, "AbleToScale", False, "FailedUpdateScale", message)
            raise _ScaleError from None
        message = f"the HPA controller was able to update the target scale to {desired}"
        self._set(autoscaler, "AbleToScale", True, "SucceededRescale", message)
        text = f"New size: {desired}; reason: {reason}"
        self._manager.recorder.event(autoscaler, "Normal", "SuccessfulRescale", text)
