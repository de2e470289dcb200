"""Kinds of the API group batch: Job and CronJob.

- `cron_job`: CronJob
- `job`: generated selector, validation of updates, and columns; `job_spec` validates the spec
- `job_spec`: defaults and validation of the spec of a Job, also in the template of a CronJob
- `job_status`: validation of the status of a Job: consistent counts, conditions and indexes that are not
  reverted
"""
