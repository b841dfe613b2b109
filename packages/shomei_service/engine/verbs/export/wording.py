"""What a person is told beside the data, in the operator's words where there are any: Art. 15(1) and (2)."""

import json
from collections.abc import Mapping
from typing import Final

from ...model import ExportText, Json, JsonObject, Policies

NONE_DECLARED: Final = "none_declared"

_RIGHTS: Final = (
    "You may ask for wrong data to be corrected (Art. 16), for data to be erased (Art. 17) or set aside "
    "while a question about it is open (Art. 18), for a copy that you can take elsewhere (Art. 20), and you "
    "may object to the use of your data (Art. 21). Where the use rests on your consent, you may withdraw it "
    "at any time."
)
_COMPLAINT: Final = (
    "You may complain to a data protection supervisory authority, in particular where you live or work "
    "(Art. 77)."
)
_RETENTION: Final = (
    "A memory with an end date is erased when that date has passed. One without is kept until it is erased "
    "on request or no longer needed. Of an erased memory a record without content is kept: that it was "
    "erased, when and why."
)
_DEFAULTS: Final[Mapping[ExportText, str | None]] = {
    ExportText.RIGHTS: _RIGHTS,
    ExportText.COMPLAINT: _COMPLAINT,
    ExportText.RETENTION: _RETENTION,
    ExportText.AUTOMATED_DECISIONS: NONE_DECLARED,
}


def processing(policies: Policies) -> JsonObject:
    """Return what the operator says of the processing; null where nothing is said."""
    told: dict[str, Json] = {}
    for name in ExportText:
        told[name.value] = policies.texts.get(name.value, _DEFAULTS.get(name))
    return told


def json_text(value: Json) -> str:
    """Return a value as the JSON text it is stored as."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
