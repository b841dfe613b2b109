"""Passages and quotes: RECALL.md §1, §5."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shomei_service.engine.recall import Span, analyse, quote, split_passages
from shomei_service.engine.recall.passages import split_sentences
from tests.engine.recall.test_lexical import HOSTILE

PROSE = st.text(alphabet=st.sampled_from("abc .!?。…\n\"')」漢字ก🎉\u0301"), max_size=400)


@given(PROSE | st.text(), st.integers(3, 60))
def test_passages_leave_out_only_space(text: str, limit: int) -> None:
    spans = split_passages(text, limit)
    ends = [0, *(place for span in spans for place in (span.start, span.end)), len(text)]
    assert ends == sorted(ends)
    assert all(span.start < span.end <= span.start + limit for span in spans)
    kept = "".join(text[span.start : span.end] for span in spans)
    assert "".join(kept.split()) == "".join(text.split())


@given(PROSE)
def test_sentences_leave_out_only_space(text: str) -> None:
    kept = "".join(text[span.start : span.end] for span in split_sentences(text))
    assert "".join(kept.split()) == "".join(text.split())


@given(PROSE | st.text(min_size=1), PROSE)
def test_quotes_are_verbatim(text: str, query: str) -> None:
    for span in (None, *split_passages(text, 50)):
        found = quote(text, analyse(query), span)
        assert text[found.start : found.end] == found.text
        assert found.text or not text.strip()


def test_short_texts_are_one_passage() -> None:
    assert split_passages("  Tea at five.  ") == [Span(2, 14)]
    assert split_passages(" \n ") == []


def test_long_texts_are_cut_at_sentences() -> None:
    sentence = "The train to Basel leaves at nine in the morning from platform four. "
    spans = split_passages(sentence * 60)
    assert len(spans) == 3
    assert all((sentence * 60)[span.start : span.end].endswith("four.") for span in spans)


def test_dense_scripts_get_shorter_passages() -> None:
    spans = split_passages("今日は天気がいいので散歩に出かけます。" * 200)
    assert max(span.end - span.start for span in spans) <= 700


STORY = (
    "We met Dr. Adler in Basel last May. The auth tokens expire after 3600 seconds, he said! "
    "Lunch was soup with bread and butter.\nThe keys of the flat are with the neighbour on the second floor."
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("when do the tokens expire?", "The auth tokens expire after 3600 seconds, he said!"),
        ("who has the keys of my flat", "The keys of the flat are with the neighbour on the second floor."),
        ("Adler Basel", "We met Dr. Adler in Basel last May."),
    ],
)
def test_the_quote_is_the_sentence_that_answers(query: str, expected: str) -> None:
    assert quote(STORY, analyse(query)).text == expected


def test_without_a_shared_word_the_passage_is_quoted() -> None:
    span = Span(36, 87)
    assert quote(STORY, analyse("credentials"), span).start == 36
    assert quote(STORY, analyse("credentials")).text == STORY


def test_the_matching_passage_is_preferred() -> None:
    text = "The blue door is locked all day. The blue door is locked all night."
    assert quote(text, analyse("blue door"), Span(33, 67)).start == 33


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "marks"])
def test_hostile_text_takes_linear_time(name: str) -> None:
    started = time.process_time()
    split_passages(HOSTILE[name])
    quote(HOSTILE[name], analyse("tea and 天 x"))
    assert time.process_time() - started < 30  # seconds; a quadratic reader takes minutes


def test_a_page_of_stops_takes_linear_time() -> None:
    started = time.process_time()
    for text in (
        "." * 65_536,
        ".)" * 32_768,
        "。" * 65_536,
        ".\n" * 32_768,
        "?!" * 32_768 + "x",
        " " * 65_536,
    ):
        split_passages(text)
    assert time.process_time() - started < 30  # seconds; a quadratic reader takes minutes
