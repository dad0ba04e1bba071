"""Add the archive: older revisions, packed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "segments",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("resource", sa.String, nullable=False),
        sa.Column("first", _NUMBER, nullable=False),
        sa.Column("last", _NUMBER, nullable=False),
        sa.Column("since", _NUMBER, nullable=False),
        sa.Column("until", _NUMBER, nullable=False),
        sa.Column("count", _NUMBER, nullable=False),
        sa.Column("raw", _NUMBER, nullable=False),
        sa.Column("size", _NUMBER, nullable=False),
        sa.Column("heads", sa.LargeBinary, nullable=False),
        sa.Column("bodies", sa.LargeBinary, nullable=False),
    )
    op.create_index("segments_by_resource", "segments", ["resource", "last"])
    op.create_table(
        "segment_keys",
        sa.Column("resource", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("segment", _NUMBER, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "keyframes",
        sa.Column("resource", sa.String, primary_key=True),
        sa.Column("revision", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("time", _NUMBER, nullable=False),
        sa.Column("raw", _NUMBER, nullable=False),
        sa.Column("size", _NUMBER, nullable=False),
        sa.Column("heads", sa.LargeBinary, nullable=False),
        sa.Column("bodies", sa.LargeBinary, nullable=False),
    )
