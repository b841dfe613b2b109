"""Words that occur nowhere else, one for each place content can come from. DEV-16."""

import json
from typing import Final

LATIN: Final = "zqcanarytext7f3a91"
CYRILLIC: Final = "щуканарейкатекст"
USER: Final = "zqcanaryuser5b20c4"
USER_CYRILLIC: Final = "щусубъектканарейки"
KIND: Final = "zqcanarykind88d1e0"
KEY: Final = "zqcanarykey41c7aa"
VALUE: Final = "щузначениеканарейки"
QUERY: Final = "zqcanaryquery9e65b2"
QUERY_CYRILLIC: Final = "щузапросканарейки"

WORDS: Final = (LATIN, CYRILLIC, USER, USER_CYRILLIC, KIND, KEY, VALUE, QUERY, QUERY_CYRILLIC)
TEXT: Final = f"The {LATIN} sings, and so does {CYRILLIC}."
SUBJECT: Final = f"{USER} {USER_CYRILLIC}"
ASKED: Final = f"{LATIN} {CYRILLIC} {QUERY} {QUERY_CYRILLIC}"
METADATA: Final = json.dumps({KEY: [VALUE, {"deep": VALUE}]})
ADD: Final = ["add", TEXT, SUBJECT, KIND, METADATA]
SEARCH: Final = ["search", ASKED, SUBJECT]
