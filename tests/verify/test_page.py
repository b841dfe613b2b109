"""The HTML page: standalone, and inert whatever text it is given."""

import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from shomei_memory_verify import to_html

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "aside"),
    *("h1", "h2", "p", "ul", "li", "dl", "dt", "dd", "pre", "hr", "blockquote", "code", "strong"),
}
VOID = {"meta", "hr"}


class Outline(HTMLParser):
    """Collects the tags, and fails on one that is not ours or not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert tag in {"html", "meta"} or not attrs
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_every_element() -> None:
    html = to_html(
        "# A `b`\n\n## C **d**\n\ntext\n\n> warn\n\n- one\n- two\n\n```\n- code **x** <b>&\n```\n\n---\n\n- z"
        "\n\n- `a.b`: `1` (x)\n- key: `k`\n- key (not signed): `l`\n- Key: `m`\n- a `b`: c"
    )
    body = html.split("<body>\n")[1].split("\n</body>")[0]
    assert body.split("\n") == [
        "<h1>A <code>b</code></h1>",
        "<h2>C <strong>d</strong></h2>",
        "<p>text</p>",
        "<blockquote>warn</blockquote>",
        "<ul>",
        "<li>one</li>",
        "<li>two</li>",
        "</ul>",
        "<pre>",
        "- code **x** &lt;b&gt;&amp;",
        "</pre>",
        "<hr>",
        "<ul>",
        "<li>z</li>",
        "</ul>",
        "<dl>",
        "<dt><code>a.b</code></dt><dd><code>1</code> (x)</dd>",
        "<dt>key</dt><dd><code>k</code></dd>",
        "<dt>key (not signed)</dt><dd><code>l</code></dd>",
        "</dl>",
        "<ul>",
        "<li>Key: <code>m</code></li>",
        "<li>a <code>b</code>: c</li>",
        "</ul>",
    ]
    Outline(html)


def test_the_page_stands_alone() -> None:
    html = to_html("# x")
    assert html.startswith("<!doctype html>\n")
    assert "default-src &#x27;none&#x27;" in html
    assert not re.search(r"\b(src|href|url|import)\b *[=(]", html)


def test_the_title_is_the_heading() -> None:
    assert "<title>A &lt;b&gt;</title>" in to_html("# A <b>\n")
    assert "<title>Receipt</title>" in to_html("text")
    assert "<title>Receipt</title>" in to_html("")


def test_the_page_has_no_colour() -> None:
    colours = re.findall(
        r"#([0-9a-f]+)\b|(?:rgb|hsl)a?\(", to_html("").split("<style>")[1].split("</style>")[0]
    )
    assert colours
    assert all(len(set(colour)) == 1 for colour in colours)


def test_an_operators_note_is_marked_and_inert() -> None:
    html = to_html("# x", operator_note='<b>we</b> `say` **so** & "so"\n# y')
    assert "<aside>Note by the operator, not verified: &lt;b&gt;we&lt;/b&gt; `say` **so** &amp; " in html
    assert Outline(html).seen.count("h1") == 1
    assert "<aside>" not in to_html("# x", operator_note=None)


MARKUP = st.text(st.sampled_from("<>&\"'`*#->\n !/abc=[]()"), max_size=60)


@settings(max_examples=300, deadline=None)
@given(MARKUP | st.text(max_size=60), st.none() | MARKUP)
def test_any_text_is_inert(markdown: str, note: str | None) -> None:
    Outline(to_html(markdown, operator_note=note))
