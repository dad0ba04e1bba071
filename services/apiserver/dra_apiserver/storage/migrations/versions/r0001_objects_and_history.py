"""Create the tables of objects, of their earlier revisions, and of named counters."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "objects",
        sa.Column("resource", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("revision", _NUMBER, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "history",
        sa.Column("revision", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("resource", sa.String, nullable=False),
        sa.Column("key", sa.String, nullable=False),
        sa.Column("type", sa.SmallInteger, nullable=False),
        sa.Column("previous", _NUMBER, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("history_by_resource", "history", ["resource", "revision"])
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("history_by_previous", "history", ["previous"])
    op.create_table(
        "counters",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", _NUMBER, nullable=False),
    )
