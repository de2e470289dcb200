"""The tutorial's CronJob in two versions that a webhook converts between."""
