"""Requests of `kubewright rewind` and `kubewright diff` to the history of an embedded control plane."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click
import msgspec

if TYPE_CHECKING:
    from kubewright.client import Client

PATH = "/kubewright/history"


async def request_history(client: Client, method: str, path: str = "", **query: str) -> Any:
    """Send a request to the history and return the decoded response."""
    from kubewright.api.errors import NotFound
    from kubewright.client.rest.request import APIRequest

    verb = "get" if method == "GET" else "create"
    try:
        response = await client.rest.send(APIRequest(verb, method, PATH + path, query=urlencode(query)))
    except NotFound:
        raise click.ClickException(
            "the server has no history; start it with kubewright up --history"
        ) from None
    return msgspec.json.decode(response.body)


class MomentType(click.ParamType[str]):
    """A revision, a time, or a duration before now."""

    name = "REVISION|TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the revision, or the time in RFC 3339."""
        from kubewright.api.values.times import duration_nanoseconds
        from kubewright.controlplane.history import parse_moment

        text = str(value)
        if not text.isdecimal():
            try:
                ago = timedelta(microseconds=duration_nanoseconds(text) / 1000)
                return (datetime.now(UTC) - abs(ago)).isoformat()
            except OverflowError:
                self.fail(f"{text!r} is before the first year", param, ctx)
            except ValueError:
                pass
        try:
            moment = parse_moment(text)
        except ValueError as error:
            self.fail(f"{error}, or a duration such as 90s", param, ctx)
        return str(moment) if isinstance(moment, int) else moment.isoformat()


MOMENT = MomentType()
