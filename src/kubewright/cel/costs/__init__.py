"""Costs of expressions: estimates, charges and limits.

- `call_estimates`: static cost of one call, from the known sizes of its arguments
- `charges`: run-time cost of calls, from the sizes of arguments and result, as in Kubernetes
- `estimate`: static cost estimation from the sizes that types declare
- `limits`: limits that Kubernetes sets for CEL: cost of expressions and size of data
"""
