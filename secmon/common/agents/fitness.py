"""Whether a master still has its registry of agents. One that is lost is never made anew by itself: groups would go.

Without it agents would be served from the key file, which knows no groups, and each would get the default group's
configuration.
"""

from secmon.common.agents.keylines import parse_keys
from secmon.common.paths import Paths


def lost_registry(paths: Paths) -> str | None:
    """Why this node, a master or one that stands alone, cannot serve its agents, and what to do; None when it can.

    An installation without agents has nothing to lose. Blocks on the disk.
    """
    file, keys, root = paths.agents_db, paths.client_keys, paths.root
    if file.exists() or not keys.exists():
        return None
    known = len(parse_keys(keys.read_bytes().decode("utf-8", "surrogateescape")).active)
    if not known:
        return None
    below = file.relative_to(root)
    return (
        f"{file} is missing, but {keys} names {known} agents: put back a backup of the file; or a worker's copy of it "
        f"({below} of a worker that is stopped); or run: secmon agents rebuild --root {root} "
        "(takes the agents of the key file, which are then in no group)"
    )
