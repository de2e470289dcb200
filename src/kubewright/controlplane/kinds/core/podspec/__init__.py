"""Pod specs, of pods and of the pod templates of workloads: defaults, validation, warnings."""
