"""How much to try: a quick run that is the same every time, or as many new examples as SECMON_FUZZ_EXAMPLES says."""

import os

from hypothesis import HealthCheck, Phase, settings

EXAMPLES = os.environ.get("SECMON_FUZZ_EXAMPLES", "")


def effort(examples: int) -> settings:
    """``examples`` in the quick run, without shrinking. The long run shrinks, and prints how to see a fault again."""
    return settings(
        max_examples=int(EXAMPLES or examples),
        derandomize=not EXAMPLES,
        print_blob=bool(EXAMPLES),
        phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
