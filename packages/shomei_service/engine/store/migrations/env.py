"""Alembic's entry: run on the connection that store.schema hands over, in its transaction."""

from alembic import context

from shomei_service.engine.store.governance_tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
