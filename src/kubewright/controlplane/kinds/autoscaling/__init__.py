"""Kinds of the API group autoscaling: HorizontalPodAutoscaler.

- `horizontal_pod_autoscaler`: HorizontalPodAutoscaler, stored as v2 and served as v2 and v1
- `versions`: conversion of HorizontalPodAutoscalers between `autoscaling/v1` and `v2` without loss
"""
