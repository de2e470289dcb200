"""Links of pages behind the proxy of pods."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kubewright.controlplane.kubelets.html_links import LinkRewriter

PAGE = (
    b"<!doctype html><html><head><link rel=icon href='/icon.png'>"
    b'<script src="/a.js">let x = \'<a href="/no">\'</script></head><body><!-- 1 < 2 -->'
    b'<a class="x" HREF = "/path?q=1">a</a><a href="relative">b</a>'
    b'<img src="/i.png" alt="/alt"><p title="/title">text</p><form action="/go"></form></body></html>'
)
EXPECTED = (
    PAGE.replace(b"'/icon.png'", b"'/proxy/icon.png'")
    .replace(b'"/a.js"', b'"/proxy/a.js"')
    .replace(b'"/path?q=1"', b'"/proxy/path?q=1"')
    .replace(b'"/i.png"', b'"/proxy/i.png"')
    .replace(b'"/go"', b'"/proxy/go"')
)


def rewrite(link: str) -> str:
    return f"/proxy{link}" if link.startswith("/") else link


@given(st.lists(st.integers(0, len(PAGE)), max_size=12))
def test_the_parts_of_a_page_do_not_matter(cuts: list[int]) -> None:
    rewriter = LinkRewriter(rewrite)
    bounds = [0, *sorted(cuts), len(PAGE)]
    parts = [rewriter.feed(PAGE[start:end]) for start, end in pairwise(bounds)]
    assert b"".join([*parts, rewriter.close()]) == EXPECTED


@given(st.binary(max_size=300))
def test_other_bytes_are_unchanged(data: bytes) -> None:
    rewriter = LinkRewriter(lambda link: link)
    assert rewriter.feed(data) + rewriter.close() == data


def test_an_endless_tag_is_not_held_back() -> None:
    rewriter = LinkRewriter(rewrite)
    data = b"<a " + b"x" * 100_000
    assert rewriter.feed(data) == data
