"""Why a backup is not made, or not restored."""


class BackupError(Exception):
    """A sentence for the operator: what is wrong, and what to do."""
