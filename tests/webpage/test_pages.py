"""The page's certificate is the Python package's, word by word and element by element."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import cast

import pytest

from shomei_memory_verify import render, to_html
from tests.verify import corpus
from tests.verify.examples import EXAMPLES, closure
from tests.verify.test_certificate import ATTACKS, PLACES, TABLE, WORDS
from tests.verify.test_page import ALLOWED
from tests.webpage.answers import Question, of_page, of_python
from tests.webpage.chromium import Chromium
from tests.webpage.hands import shown, submit, type_into

PINS = (corpus.PIN, None, corpus.STRANGER_PIN)
VALUES: list[object] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    5,
    1.5,
    2**53 - 1,
    1e300,
    "",
    "x",
    [],
    ["a", 1],
    {},
    {"b": [1]},
]


def agree(page: Chromium, bodies: list[dict[str, object]], pins: tuple[str | None, ...] = PINS) -> set[str]:
    """Hold both to the same pages; return the kinds of page that were seen."""
    questions: list[Question] = [(corpus.text_of(corpus.seal(body)), pin) for body in bodies for pin in pins]
    answers = of_page(page, questions)
    assert answers == of_python(questions)
    return {answer.page.partition(":")[0].partition("\n")[0] for answer in answers}


EVERY_KIND = {
    "# Certificate",
    "# Unattributed receipt",
    "# No valid receipt",
    "# Receipt without certificate",
}


CERTIFIED_OR_NOT = {"# Certificate", "# Receipt without certificate"}


def test_every_schema(page: Chromium) -> None:
    assert agree(page, [*EXAMPLES.values(), {"schema": "shomei.unheard.v9"}, {}]) == EVERY_KIND


def test_every_closure(page: Chromium) -> None:
    assert agree(page, [closure(*counts, word) for counts in TABLE for word in WORDS]) == EVERY_KIND


def test_a_field_missing_or_of_another_type(page: Chromium) -> None:
    bodies: list[dict[str, object]] = []
    for example in EXAMPLES.values():
        for name in example:
            bodies.append({other: example[other] for other in example if other != name})
            bodies += [{**example, name: value} for value in random.Random(name).sample(VALUES, 3)]
    assert len(bodies) > 1_400
    # An envelope whose schema is no text is malformed.
    assert agree(page, bodies, (corpus.PIN,)) == {*CERTIFIED_OR_NOT, "# No valid receipt"}


def test_words_that_decide_a_sentence(page: Chromium) -> None:
    words: dict[str, list[object]] = {
        "key_custody": ["dev_local_file", "dev_", "dev", "ephemeral_test", "hsm_pkcs11", "Dev_x", 1],
        "finality": ["final", "scheduled", "unassured", "other", None],
        "physical_purge_state": ["key_destroyed", "ciphertext_deleted", "purged_verified", "other", None, 1],
        "key_final_at": [None, 0, "soon", 253_402_300_800],
        "resurrection_bound_at": [None, 1, True],
        "external_artifact_count": [None, 0, 3, "3"],
        "action": ["applied", "lifted", "placed", "released", "granted", "withdrawn", "expired"],
        "scope": ["memory", "subject"],
        "restricted_state": [True, False],
        "recallable": [True, False],
        "key_role": ["custody", "signer", "commit", "root"],
    }
    bodies = [
        {**example, name: value}
        for example in EXAMPLES.values()
        for name, values in words.items()
        for value in values
    ]
    assert agree(page, bodies, (corpus.PIN,)) == CERTIFIED_OR_NOT


def test_hostile_strings(page: Chromium) -> None:
    assert agree(page, [place(attack) for place in PLACES.values() for attack in ATTACKS]) == EVERY_KIND


def test_names_are_listed_in_one_order(page: Chromium) -> None:
    names = [
        "\ue000",
        "\U00010000",
        "a",
        "ab",
        "",
        "Z",
        "é",
        "__proto__",
        "constructor",
        "toString",
        "a\U00010000",
    ]
    agree(page, [{"log": dict.fromkeys(names, 1), **{name: {name: 2} for name in names}}])


@pytest.mark.parametrize("pin", PINS, ids=["pinned", "unpinned", "refused"])
def test_the_sheet_has_the_elements_of_the_python_page(page: Chromium, pin: str | None) -> None:
    url = page.run("document.URL")
    bodies = [*EXAMPLES.values(), *(PLACES["list"](attack) for attack in ATTACKS)]
    pages = [render(corpus.seal(body), expected_public_key_hex=pin) for body in bodies]
    made = cast(
        "list[str]",
        page.run(f"{pages!a}.map((page) => element('main', ...blocks(page)).innerHTML)"),
    )
    for markdown, ours in zip(pages, made, strict=True):
        theirs = to_html(markdown).split("<body>\n")[1].split("\n</body>")[0]
        assert ours.replace("\n", "") == theirs.replace("\n", "").replace("&#x27;", "'").replace(
            "&quot;", '"'
        )
    assert page.run("document.URL") == url


def test_the_sheet_is_built_of_known_elements(page: Chromium) -> None:
    receipt = corpus.seal({**EXAMPLES["memory_add"], "<img src=x onerror=alert(1)>": ATTACKS})
    type_into(page, "text", corpus.text_of(receipt))
    type_into(page, "pin", corpus.PIN)
    assert "Certificate: Memory added" in submit(page)
    inside = cast("list[str]", page.run("[...at('sheet').querySelectorAll('*')].map((one) => one.localName)"))
    assert set(inside) <= ALLOWED
    attributes = page.run("[...at('sheet').querySelectorAll('*')].flatMap((one) => one.getAttributeNames())")
    assert attributes == ["class"]  # of the last line


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_certificate_prints_as_one_sheet(page: Chromium, name: str) -> None:
    type_into(page, "text", corpus.text_of(corpus.seal(EXAMPLES[name])))
    type_into(page, "pin", corpus.PIN)
    assert submit(page).startswith("Certificate: ")
    assert sheets(page.pdf()) == 1
    page.call("Emulation.setEmulatedMedia", media="print")
    assert shown(page, "sheet")
    assert not page.run("document.querySelector('main').checkVisibility()")
    page.call("Emulation.setEmulatedMedia", media="")


LONGEST = ("vector_delete_development", "vector_delete_scheduled", "subject_closure_partial", "access_export")


@pytest.mark.parametrize("name", LONGEST)
@pytest.mark.parametrize("pin", [corpus.PIN, None], ids=["pinned", "unpinned"])
def test_a_page_of_the_package_prints_as_one_sheet(
    chromium: Chromium, name: str, pin: str | None, tmp_path: Path
) -> None:
    markdown = render(corpus.seal(EXAMPLES[name]), expected_public_key_hex=pin)
    file = tmp_path / "page.html"
    file.write_text(to_html(markdown, operator_note="Filed by the privacy office. " * 6))
    chromium.open(file.as_uri())
    assert sheets(chromium.pdf()) == 1


def sheets(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))
