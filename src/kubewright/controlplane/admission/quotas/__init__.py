"""Admission plug-ins that limit resources: quotas and limit ranges.

- `limits`: LimitRanger: limits and defaults for resources of a pod, container or claim
- `quotas`: ResourceQuota: limits the total resource usage of a namespace
- `usage`: quota usage of objects
"""
