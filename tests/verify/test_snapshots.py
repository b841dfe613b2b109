"""One page for every schema, in Markdown and HTML, as reviewed. UPDATE_SNAPSHOTS=1 rewrites them."""

import os
from pathlib import Path

import pytest

from shomei_memory_verify import render, to_html
from tests.verify import corpus
from tests.verify.examples import EXAMPLES, closure

FOLDER = Path(__file__).parent / "snapshots"
UNPINNED = {"subject_closure_complete", "vector_delete_development"}


def pages() -> dict[str, str]:
    """Return every page by the file that holds it."""
    made: dict[str, str] = {}
    for name, body in EXAMPLES.items():
        made[name] = render(corpus.seal(body), expected_public_key_hex=corpus.PIN)
        if name in UNPINNED:
            made[f"{name}.unpinned"] = render(corpus.seal(body))
    made["refused"] = render(corpus.seal(EXAMPLES["memory_add"]), expected_public_key_hex=corpus.STRANGER_PIN)
    made["malformed"] = render("{}")
    made["unknown_schema"] = render(corpus.seal({"schema": "x.v1"}), expected_public_key_hex=corpus.PIN)
    false_closure = corpus.seal(closure(3, 0, 0, "complete"))
    made["subject_closure_contradicting"] = render(false_closure, expected_public_key_hex=corpus.PIN)
    note = "Filed by the privacy office."
    html = {f"{name}.html": to_html(page, operator_note=note) for name, page in made.items()}
    return {f"{name}.md": page for name, page in made.items()} | html


PAGES = pages()


@pytest.mark.parametrize("file", PAGES)
def test_the_page_is_the_reviewed_one(file: str) -> None:
    path = FOLDER / file
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(PAGES[file], "utf-8")
    assert PAGES[file] == path.read_text("utf-8")


def test_no_snapshot_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)
