"""Responses of the dashboard: JSON, errors, and the headers that restrict what a page can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import encode
from kubewright.client.transport.headers import replace_surrogates

if TYPE_CHECKING:
    from aiohttp import web

_COMMON: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
DATA_HEADERS: Final = {
    **_COMMON,
    # A response that a browser would render has no access to this origin.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cache-Control": "no-store",
}
"""Headers of responses with data."""


def page_headers(nonce: str) -> dict[str, str]:
    """Return the headers of a page whose `<style>` elements have this nonce."""
    policy = (
        "default-src 'self'",
        f"style-src 'self' 'nonce-{nonce}'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return {**_COMMON, "Content-Security-Policy": "; ".join(policy), "Cache-Control": "no-cache"}


class RequestError(Exception):
    """A request that cannot be processed; `message` says why and what to do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def json_response(data: Any, status: int = 200) -> web.Response:
    """Return data as JSON."""
    return raw_json_response(encode(data), status)


def raw_json_response(body: bytes, status: int = 200) -> web.Response:
    """Return encoded JSON."""
    from aiohttp import web

    headers = {**DATA_HEADERS, "Content-Type": "application/json"}
    return web.Response(body=body, status=status, headers=headers)


def error_response(path: str, code: int, message: str) -> web.Response:
    """Return an error in the form of its path: a `Status`, JSON, or a page."""
    message = replace_surrogates(message)
    if path.startswith("/k8s/"):
        return json_response(status_object(code, message), code)
    if path.startswith("/api/"):
        return json_response({"error": {"code": code, "message": message}}, code)
    return page_response("Kubewright", message, code)


def status_object(code: int, message: str, reason: str = "") -> dict[str, Any]:
    """Return a `Status` of the dashboard itself, for `/k8s`."""
    names = {
        400: "BadRequest",
        401: "Unauthorized",
        403: "Forbidden",
        404: "NotFound",
        413: "RequestEntityTooLarge",
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or names.get(code, "InternalError" if code < 502 else "ServiceUnavailable"),
        "code": code,
    }


def page_response(title: str, text: str, code: int) -> web.Response:
    """Return a page with one paragraph."""
    from html import escape

    from aiohttp import web

    body = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"></head><body><h1>{escape(title)}</h1>'
        f"<p>{escape(text)}</p></body></html>"
    )
    return web.Response(text=body, status=code, content_type="text/html", headers=DATA_HEADERS)
