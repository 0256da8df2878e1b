"""The hash that stands for an authorization context in tokens and logs (conventions.md 12.1)."""

import hashlib
import json
from typing import Any


def context_hash(body: Any) -> str:
    """Hash that stands for a run_as body: BLAKE2b of 16 bytes, hex, of its JSON text (conventions.md 12.1).

    ``body`` is the whole body as parsed, or its text, which is parsed first. Raises ValueError when it is not JSON,
    RecursionError when it is nested too deeply to be written.
    """
    value = json.loads(body) if isinstance(body, str | bytes) else body
    # The JSON writer of the standard library defines the text: separators, escapes, how numbers look.
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()
