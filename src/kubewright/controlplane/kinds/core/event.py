"""Event of the core group, which shares its storage with `events.k8s.io`."""

from kubewright.controlplane.kinds.events.event import CORE_EVENT

KINDS = {"events": CORE_EVENT}
