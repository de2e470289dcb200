"""What a cache cannot do.

CacheError
 +- NotCached       this read cannot be answered from here; a cached client asks the server instead
 |   +- Refused     the kind is too big or too secret to be kept whole unless asked for
 +- NoInformer      the kind is not followed, and reading must not begin to
 +- NotSynced       the initial state did not come in time
"""

from __future__ import annotations


class CacheError(Exception):
    """Base of these."""


class NotCached(CacheError):
    """The answer is not here: the object may exist outside the namespaces, labels or fields that are kept."""


class CachingNotAllowed(NotCached):
    """The kind is not kept whole unless asked for; the message says how to ask."""


class NoInformer(CacheError):
    """The kind is not followed and `fail_on_missing_informer` is set."""


class NotSynced(CacheError):
    """The initial state of some kinds has not come; the message says which and why."""


__all__ = ["CacheError", "CachingNotAllowed", "NoInformer", "NotCached", "NotSynced"]
