"""Kinds of the API group policy: PodDisruptionBudget.

- `pod_disruption_budget`: PodDisruptionBudget
"""
