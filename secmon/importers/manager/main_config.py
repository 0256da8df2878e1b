"""The main configuration of another manager with the cluster section of this node."""

import re

_PART = re.compile(rb"<!--.*?(?:-->|\Z)|<cluster>.*?(?:</cluster>[ \t]*\n?|\Z)", re.DOTALL)
"""What is not closed lasts until the end, so that the file is read once, however many are opened."""


def keep_cluster(theirs: bytes, ours: bytes) -> bytes:
    """``theirs`` without its cluster sections, and with those of ``ours`` at the end; comments are left alone."""
    sections = [found[0].strip() for found in _PART.finditer(ours) if found[0].startswith(b"<cluster>")]
    kept = _PART.sub(lambda found: b"" if found[0].startswith(b"<cluster>") else found[0], theirs)
    if not sections:
        return kept
    return kept.rstrip() + b"\n\n<ossec_config>\n  " + b"\n  ".join(sections) + b"\n</ossec_config>\n"
