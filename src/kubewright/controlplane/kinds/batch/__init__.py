"""Kinds of the API group batch: Job and CronJob."""
