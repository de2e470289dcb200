"""`add_job_controller`: the changes that cause a reconcile of a Job."""

from __future__ import annotations

from kubewright.api.batch.v1 import Job
from kubewright.api.core.v1 import Pod
from kubewright.controller import ControllerBuilder, Request
from kubewright.workloads.component_manager import ComponentManager

from .ownership import job_of_pod
from .reconciler import JobReconciler


def add_job_controller(manager: ComponentManager) -> None:
    """Add the controller of Jobs."""
    (
        ControllerBuilder[Request](manager, "job-controller")
        .for_(Job)
        .watches(Pod, handler=job_of_pod)
        .with_options(workers=5)
        .complete(JobReconciler(manager))
    )
