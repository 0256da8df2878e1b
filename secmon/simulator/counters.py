"""Counters of a fleet, for tests, benchmarks and the progress line."""

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """Totals since the start, except for those whose comment says "now"."""

    keyed: int = 0  # agents that hold a key now
    connected: int = 0  # agents now: transport open and startup acknowledged

    enrolled: int = 0
    enrolments_refused: int = 0  # the server answered with an error
    enrolments_failed: int = 0  # no usable answer

    connects: int = 0  # attempts
    connects_failed: int = 0  # refused, timed out, or no acknowledgement
    losses: int = 0  # acknowledged connections that the agent did not end
    failovers: int = 0  # a try at another server than the one before

    startups: int = 0
    shutdowns: int = 0
    keepalives: int = 0
    acked: int = 0  # acknowledgements received
    errors: int = 0  # "#!-err" received

    pushes: int = 0  # group files taken: complete and with the announced sum
    pushes_bad: int = 0  # wrong sum, or not unpackable
    restarts: int = 0

    requests: int = 0  # received, repetitions not counted
    answers: int = 0  # sent, repetitions not counted
    commands: int = 0  # received: active responses, reconnects, scans, synchronisation
    upgrades: int = 0  # packages installed
    reports: int = 0  # upgrade results sent
    clears: int = 0  # upgrade results cleared by the server

    events: int = 0  # sent
    host_reports: int = 0  # messages about hosts sent
    held: int = 0  # events not sent because the connection was full
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    undecryptable: int = 0  # messages of the server that could not be decrypted

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
