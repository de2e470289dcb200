"""Kinds of the API group policy: PodDisruptionBudget."""
