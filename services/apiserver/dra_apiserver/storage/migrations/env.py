"""Alembic's entry point: migrations run on the connection that the caller passes."""

from alembic import context

from dra_apiserver.storage.schema import metadata


def _run() -> None:
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()


_run()
