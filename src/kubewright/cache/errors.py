"""Errors of the cache.

CacheError
 +- NotCached                the object may be outside the cache; a CachedClient reads from the server instead
 |   +- CachingNotAllowed    all Secrets or ConfigMaps of a cluster are only cached if requested
 +- NoInformer               the kind has no informer, and reads do not create one
 +- NotSynced                the initial state of some kinds was not received before the timeout
"""

from __future__ import annotations


class CacheError(Exception):
    """Base class of the errors of the cache."""


class NotCached(CacheError):
    """The read is not covered by the cached namespaces, labels or fields."""


class CachingNotAllowed(NotCached):
    """Full objects of the kind are cached only if requested; the message lists the options."""


class NoInformer(CacheError):
    """The kind has no informer and `fail_on_missing_informer` is set."""


class NotSynced(CacheError):
    """The initial state of some kinds has not been received; the message has each kind and its reason."""


class UndecodableVersion(CacheError):
    """An object was received that cannot be decoded; the message has the reason."""

    def copy(self) -> UndecodableVersion:
        """Return an equal error to raise; one that is kept would keep the frames that it passed."""
        return UndecodableVersion(*self.args)
