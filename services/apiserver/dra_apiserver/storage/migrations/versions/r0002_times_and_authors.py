"""Add the time and author of each revision. Older revisions have neither."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("history", sa.Column("time", _NUMBER, nullable=False, server_default="0"))
    op.add_column("history", sa.Column("author", sa.String, nullable=False, server_default=""))
