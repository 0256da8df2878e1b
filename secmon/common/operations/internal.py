"""What the daemons ask each other for themselves. No client can: these operations have no route.

They come over the local socket or from a connected worker, and their identity is that of the user they are about.
"""

from msgspec import Struct

from secmon.common.operations.catalogue import Catalogue, Place, operation
from secmon.common.operations.executor import Context
from secmon.common.outcome import Plain
from secmon.common.security.users import upgrade_hash

INTERNAL = Catalogue()


class HashUpgrade(Struct, frozen=True, kw_only=True):
    """The outdated hash that the caller's password was just verified with, and a new one of the same password."""

    old: str
    new: str


@operation(
    "PUT", "/internal/password-hash", params=HashUpgrade, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def upgrade_password_hash(ctx: Context, params: HashUpgrade) -> Plain:
    """Replace the outdated password hash of the caller; tokens live on."""
    user = ctx.call.identity.user_id
    await ctx.change_security(lambda tx: upgrade_hash(tx, user, old=params.old, new=params.new))
    return Plain()
