"""The built page is current and closed to the world; the translator refuses what it does not know."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape

import pytest

from web.build import PAGE, page
from web.translate import Untranslatable, constants, literal, module

TEXT = PAGE.read_text("utf-8")
STYLE = TEXT.split("<style>")[1].split("</style>")[0]
SCRIPT = TEXT.split("<script>")[1].split("</script>")[0]


def test_the_committed_page_is_current() -> None:
    assert page() == TEXT, "run scripts/webpage"


def test_the_policy_lets_its_own_script_and_style_run_and_nothing_else() -> None:
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', TEXT)[0]).split("; ")
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (SCRIPT, STYLE)]
    assert policy == [
        "default-src 'none'",
        f"script-src 'sha256-{hashes[0]}'",
        f"style-src 'sha256-{hashes[1]}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    assert TEXT.index("Content-Security-Policy") < TEXT.index("<style>") < TEXT.index("<script>")


@pytest.mark.parametrize(
    "word",
    [
        *(
            "://",
            " src=",
            "href",
            "url(",
            "@import",
            "import(",
            "fetch",
            "XMLHttp",
            "WebSocket",
            "sendBeacon",
        ),
        *("innerHTML", "outerHTML", "insertAdjacent", "document.write", "DOMParser", "eval(", "Function("),
        *(
            "localStorage",
            "sessionStorage",
            "indexedDB",
            "cookie",
            "location",
            "postMessage",
            " style=",
            " on",
        ),
    ],
)
def test_the_page_names_no_way_out_and_no_way_in(word: str) -> None:
    code = TEXT if word != " on" else "".join(re.findall(r"<[a-z][^>]*>", TEXT))
    assert word not in code


def test_the_page_has_no_colour() -> None:
    colours = re.findall(r"#([0-9a-f]{3,6})\b(?=[;} ])|(?:rgb|hsl)a?\(", STYLE)
    assert len(colours) > 10
    assert all(len(set(colour)) == 1 for colour in colours)


def test_what_is_translated() -> None:
    assert module(
        '"""Doc."""\nimport x\nA: int = 1\nB = {"`${1}\\\\": None}\nclass C: ...\n'
        "def f(a, *, b):\n"
        '    """Doc."""\n'
        "    c = [*a, True]\n"
        "    c.append(f'`{a}${b}\\\\')\n"
        "    for k, v in B.items():\n"
        "        if not k and v == 1 or v is None:\n"
        "            raise Unfit('no')\n"
        "    return [g(x, b=y) for y in b for x in (1, 2)] if c else tuple(c)\n"
    ) == (
        "const A = 1;\n"
        'const B = new Map([["`${1}\\\\", null]]);\n'
        "function f(a, { b }) {\n"
        "  let c;\n"
        "  c = [...a, true];\n"
        "  c.push(`\\`${a}\\$${b}\\\\`);\n"
        "  for (const [k, v] of B.entries()) {\n"
        "    if (((!(k) && (v === 1)) || ((v ?? null) === null))) {\n"
        '      throw new Unfit("no");\n'
        "    }\n"
        "  }\n"
        "  return (c ? b.flatMap((y) => [1, 2].map((x) => g(x, { b: y }))) : c);\n"
        "}\n"
    )
    assert constants("A = 1\nB = re.compile(r'a\\b')\n", ["B"]) == 'const B = new RegExp("a\\\\b", "gu");\n'
    assert literal("S = ('a' 'b')\n", "S") == "ab"


@pytest.mark.parametrize(
    "body",
    [
        "while a: pass",
        "a -= 1",
        "a += b",
        "del a",
        "with a: pass",
        "raise",
        "raise a",
        "return",
        "a.b.c()",
        "a.pop()",
        "a.upper()",
        "lambda: a",
        "a[1:2]",
        "a[b]",
        "a < b",
        "a == b == c",
        "a in b",
        "a is b",
        "-a",
        "a % b",
        "a // b",
        "[x for x in a if x]",
        "{x for x in a}",
        "{**a}",
        "f'{a!r}'",
        "f'{a:>3}'",
        "(a := 1)",
        "await_(a)[0].b()",
        "b'x'",
        "for x in a: pass\n    else: pass",
        "try: a\n    finally: b",
        "try: a\n    except Unfit: b",
        "def g(): return a",
        "yield a",
        "global a",
    ],
)
def test_what_is_not_known_is_not_translated(body: str) -> None:
    with pytest.raises(Untranslatable):
        module(f"def f(a, b):\n    {body}\n")


@pytest.mark.parametrize(
    "source", ["def f(*a): return a", "def f(a=1): return a", "@x\ndef f(a): return a", "for x in y: pass"]
)
def test_shapes_of_functions_that_are_not_translated(source: str) -> None:
    with pytest.raises(Untranslatable):
        module(source)
