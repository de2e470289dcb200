"""`cache_short`: a cache of results by text, whose memory does not depend on what clients send.

    @cache_short(maxsize=512)
    def parse_accept(header: str) -> tuple[AcceptClause, ...]: ...

`functools.lru_cache` bounds the number of results. A client that sends long texts, all different, fills it
with texts up to the limit of a header or body, and with results that can be many times as large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

SHORT: Final = 512
"""Characters of texts whose results are cached. Longer texts are rare, and processed each time."""


def cache_short(
    maxsize: int,
) -> Callable[[Callable[Concatenate[str, P], T]], Callable[Concatenate[str, P], T]]:
    """Cache the results of a function whose first argument is a text, if the text is short."""

    def decorate(function: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
        cached = cast(Callable[Concatenate[str, P], T], lru_cache(maxsize=maxsize)(function))

        @wraps(function)
        def call(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if len(text) > SHORT:
                return function(text, *args, **kwargs)
            return cached(text, *args, **kwargs)

        return call

    return decorate
