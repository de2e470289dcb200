"""Kinds of the API group autoscaling: HorizontalPodAutoscaler."""
