"""What the cluster daemon of a master does once in a term, before it serves."""

from contextlib import suppress

from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress
from secmon.common.clock import Clock
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.daemons.take_files import take_files
from secmon.daemons.takeover import record_authority


def begin_term(paths: Paths, address: RecordAddress, cluster_key: str, term: Term, clock: Clock) -> None:
    """Record the authority, if none is, and replace files that are not those recorded. Blocks.

    A daemon that starts again in this term does neither: so it needs no database, and files that were changed on this
    node since, as a master's are, are not reverted. Raises SecmonError 3050 and 3051.
    """
    begun = ""
    with suppress(FileNotFoundError):
        begun = paths.begun_term.read_text()
    if begun != term.id:
        record_authority(paths, address, cluster_key, term)
        take_files(paths, address, term, clock)
        write_file(paths.begun_term, term.id.encode(), 0o640)
