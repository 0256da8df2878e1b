"""Reasons why an accepted upgrade fails (agent-link.md 10.8); clients know the texts."""

TEXTS = {
    14: "The repository is not reachable",
    15: "The version of the package does not exist in the repository",
    16: "The WPK file does not exist",
    17: "The WPK sha1 of the file is not valid",
    18: "Send lock restart error",
    19: "Send open file error",
    20: "Send write file error",
    21: "Send close file error",
    22: "Send verify sha1 error",
    23: "Send upgrade command error",
    24: "Upgrade procedure exited with error code",
    25: "Upgrade procedure could not start",
}

REPORTED = 24
NOT_STARTED = 25


class UpgradeFailure(Exception):
    """An upgrade that cannot be finished; ``detail`` is the text of the agent, the repository or the system."""

    def __init__(self, code: int, detail: str = "") -> None:
        self.code = code
        super().__init__(f"{TEXTS[code]}: {detail}" if detail else TEXTS[code])
