"""Everything about one person, with a witness. CONTRACT.md §1, docs/spec/export.md."""

from typing import Final

from ...engine.model import Scope
from ...engine.verbs import export
from ..exchange import Ask, Operation
from ..export_answers import ExportAnswer
from ..export_bodies import ExportBody, ExportQuery
from ..forms import JSON, ZIP
from ..lanes import Lane
from ..replies import Streamed
from ..shapes import Nothing


def export_subject(ask: Ask[ExportBody, Nothing]) -> Streamed:
    """Export everything about a person, as JSON or as a ZIP package."""
    return _as_json(ask, _asked(ask.body))


def fetch_export(ask: Ask[Nothing, ExportQuery]) -> Streamed:
    """Export everything about a person; the same, for a link."""
    return _as_json(ask, _looked_up(ask.query))


def _asked(body: ExportBody) -> export.Wanted:
    left_out = {one.memory_id: one.code for one in body.redactions}
    return export.Wanted(body.user_id, identity_check=body.identity_check_code, redactions=left_out)


def _looked_up(query: ExportQuery) -> export.Wanted:
    return export.Wanted(query.user_id, identity_check=query.identity_check_code)


def _as_json(ask: Ask[ExportBody, Nothing] | Ask[Nothing, ExportQuery], wanted: export.Wanted) -> Streamed:
    package = export.export(ask.engine, ask.caller, wanted, form=export.Form.JSON)
    return Streamed(JSON, package.as_json(), package.close)


def _as_zip(ask: Ask[ExportBody, Nothing] | Ask[Nothing, ExportQuery], wanted: export.Wanted) -> Streamed:
    package = export.export(ask.engine, ask.caller, wanted, form=export.Form.ZIP)
    name = f'attachment; filename="{package.export_id}.zip"'.encode()
    return Streamed(ZIP, package.as_zip(), package.close, ((b"content-disposition", name),))


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/export",
        scope=Scope.ADMIN,
        act=export_subject,
        answer=ExportAnswer,
        body=ExportBody,
        query=Nothing,
        lane=Lane.EXPORT,
        forms={ZIP: lambda ask: _as_zip(ask, _asked(ask.body))},
        streams=True,
    ),
    Operation(
        method="GET",
        path="/v1/export",
        scope=Scope.ADMIN,
        act=fetch_export,
        answer=ExportAnswer,
        body=Nothing,
        query=ExportQuery,
        lane=Lane.EXPORT,
        forms={ZIP: lambda ask: _as_zip(ask, _looked_up(ask.query))},
        streams=True,
    ),
)
