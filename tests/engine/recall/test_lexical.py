"""Words: RECALL.md §3."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shomei_service.engine.recall import analyse
from shomei_service.engine.recall.stems import stem
from shomei_service.engine.recall.stopwords import language_of, languages_of


def share(query: str, text: str) -> float:
    """How much of a query's terms a text holds."""
    wanted = analyse(query)
    return len(wanted.keys() & analyse(text).keys()) / len(wanted)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("浦东机场", "下周三我要去浦东机场接客户"),
        ("机", "下周三我要去浦东机场接客户"),
        ("在宅勤務", "毎週金曜日は在宅勤務です"),
        ("회의실예약", "회의실 예약은 김지수가 담당한다"),
        ("ร้านอาหาร", "ฉันชอบร้านอาหารไทยใกล้บ้าน"),
        ("الاجتماع", "موعد الاجتماع يوم الخميس"),
        ("اجتماع", "موعد الإجتماع يوم الخميس"),
        ("كتاب", "كِتَابٌ"),
        ("zurich", "Café Zürich Buchung"),
        ("CAFE", unicodedata.normalize("NFD", "Café Zürich")),
        ("straße", "STRASSE"),
        ("Łódź", "lodz"),
        ("ﬁne Ｗｉｄｅ", "fine wide"),
        ("किताब", "मेरी किताब मेज़ पर है"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("bookings", "we booked it"),
        ("Rechnung", "Rechnungen"),
        ("книга", "книги"),
        ("🎉", "party 🎉 tonight"),
        ("❤️", "❤"),
        ("user_name", "the user name"),
        ("3600", "expire after 3600 seconds"),
        ("???", "what???"[4:]),
    ],
)
def test_finds_across_forms(query: str, text: str) -> None:
    assert share(query, text) >= 0.5


@pytest.mark.parametrize("text", ["Zürich", "Ångström ﬃ", "क़लम", "각자", "café ộ", "ばか ﾊﾞｶ"])
def test_composed_and_decomposed_are_one(text: str) -> None:
    forms = {form: analyse(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert len({frozenset(terms.items()) for terms in forms.values()}) == 1


def test_stop_words_fall_unless_alone() -> None:
    assert analyse("when did we sign the lease") == analyse("sign lease")
    assert analyse("who is it") != {}
    assert "die" not in analyse("die Rechnung ist da")
    assert "war" in analyse("war and peace")


def test_one_language_does_not_silence_another() -> None:
    assert language_of(["the", "cat", "sat", "on", "the", "mat"]) == "english"
    assert language_of("die Katze ist auf dem Dach".lower().split()) == "german"
    assert language_of([]) == "english"
    assert "english" in languages_of()["the"]


def test_counts_saturate_where_the_stored_form_does() -> None:
    assert analyse("tea " * 1000)["tea"] == 255


def test_weak_forms_bridge_compounds() -> None:
    assert analyse("Steuerberater").keys() & analyse("Steuern").keys()


@pytest.mark.parametrize("word", ["a", "٣", "x" * 5000, "שלום", "ნინო", "ဗမာ", "ʘ", "𝔘𝔫𝔦", "ß", "ﷺ"])
def test_every_word_has_a_stem(word: str) -> None:
    assert stem(word)


@given(st.text())
def test_any_text_has_terms_unless_it_is_blank(text: str) -> None:
    terms = analyse(text)
    assert terms == analyse(text)
    assert all(0 < count <= 255 and "\n" not in term and term.encode() for term, count in terms.items())


HOSTILE = {
    "marks": "a" + "\u0301\u0323" * 500_000,
    "dots": "." * 65_536,
    "emoji": "👩‍👩‍👧‍👦" * 9_000,
    "right to left": "\u202eمرحبا\u202c " * 6_000,
    "one word": "x" * 65_536,
    "han": "天地玄黄" * 16_384,
    "thai with marks": "ก็" * 32_768,
    "ligatures": "ﷺ" * 21_000,
    "binary": bytes(range(256)).decode("latin-1") * 256,
    "surrogates": "\ud83d" * 65_536,
    "nul": "\0" * 65_536,
    "words and marks": "a\u0301" * 32_768,
    "alternating": "a漢" * 32_768,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    started = time.process_time()
    analyse(HOSTILE[name])
    assert time.process_time() - started < 30  # seconds; a quadratic reader takes minutes


@settings(max_examples=50)
@given(st.text(alphabet=st.characters(categories=["Mn", "Mc", "Lo", "So", "Cf", "Cs", "Zs"]), max_size=200))
def test_odd_letters_never_raise(text: str) -> None:
    assert analyse(text) == analyse(text)
