"""Declarations of custom resources, and their checks.

- `class_checks`: checks of struct classes at their definition: what would otherwise be ignored silently
- `dashboard_views`: what the dashboard shows of a kind, declared beside its type
- `declarations`: declarations of custom resources, permissions and webhooks
- `keywords`: errors for misspelt keyword arguments
- `status_descriptor`: attribute access to the status of a custom resource: an empty status is created when it
  is first read
"""
