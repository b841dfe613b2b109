"""What is asked of an export. docs/spec/export.md §1."""

from typing import Annotated

from pydantic import Field, StringConstraints

from ..engine import limits
from ..engine.model import Redaction
from .schemas import CODE_WORD, Code, Subject
from .shapes import Shape


class RedactionBody(Shape):
    """A memory whose words are left out, and why."""

    memory_id: Annotated[str, StringConstraints(min_length=1, max_length=limits.ID_BYTES)]
    code: Annotated[Redaction, CODE_WORD]


class ExportBody(Shape):
    """Whose data, how the person was identified, and what is left out."""

    user_id: Subject
    identity_check_code: Code | None = None
    redactions: Annotated[list[RedactionBody], Field(max_length=limits.BATCH_MEMORIES)] = Field(
        default_factory=list[RedactionBody]
    )


class ExportQuery(Shape):
    """Whose data, and how the person was identified."""

    user_id: Subject
    identity_check_code: Code | None = None
