"""The built-in plug-ins, with the names, weights and arguments of kube-scheduler.

- `node_filters`: SchedulingGates, PrioritySort, NodeUnschedulable, NodeName, NodePorts
- `taint_toleration`, `node_affinity`, `node_resources`, `pod_topology_spread`, `inter_pod_affinity`
- `volumes`: VolumeRestrictions, VolumeZone, NodeVolumeLimits; `volume_binding`: WaitForFirstConsumer
- `dynamic_resources`: ResourceClaims
- `default_preemption`, `default_binder`
- `image_locality`: not enabled by default
"""

from __future__ import annotations

from kubewright.workloads.scheduler.framework.plugin import Plugin

from .default_binder import DefaultBinder as DefaultBinder
from .default_preemption import DefaultPreemption as DefaultPreemption
from .dynamic_resources import DynamicResources as DynamicResources
from .image_locality import ImageLocality as ImageLocality
from .inter_pod_affinity import InterPodAffinity as InterPodAffinity
from .node_affinity import NodeAffinity as NodeAffinity
from .node_filters import NodeName as NodeName
from .node_filters import NodePorts as NodePorts
from .node_filters import NodeUnschedulable as NodeUnschedulable
from .node_filters import PrioritySort as PrioritySort
from .node_filters import SchedulingGates as SchedulingGates
from .node_resources import NodeResourcesBalancedAllocation as NodeResourcesBalancedAllocation
from .node_resources import NodeResourcesFit as NodeResourcesFit
from .pod_topology_spread import PodTopologySpread as PodTopologySpread
from .taint_toleration import TaintToleration as TaintToleration
from .volume_binding import VolumeBinding as VolumeBinding
from .volumes import NodeVolumeLimits as NodeVolumeLimits
from .volumes import VolumeRestrictions as VolumeRestrictions
from .volumes import VolumeZone as VolumeZone

DEFAULT_PLUGINS: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    DefaultBinder,
)
"""The plug-ins of a profile that does not disable any, in the order in which they run."""

DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
