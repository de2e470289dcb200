"""Errors that a cloud provider raises to control what its caller does next. Other errors are retried."""

from __future__ import annotations

from kubewright.controller.request import TemporaryError


class RetryAfter(TemporaryError):
    """The operation is not finished: call again after `delay` seconds, without exponential backoff.

    For example while a load balancer is being provisioned.
    """


class ImplementedElsewhere(Exception):
    """Another controller manages the load balancer of this service; raised by `ensure` and `update`."""


class InstanceNotFound(Exception):
    """The instance does not exist. Not for an instance that is stopped."""
