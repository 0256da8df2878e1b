"""``python -m bench [NAME...] [--quick]``: measure, print the table, write bench/results/*.json."""

import argparse
import os
import sys
import time
from collections.abc import Callable

from bench import (
    agents_read,
    alert_nodes,
    alerts,
    availability,
    backup,
    convergence,
    engine,
    fanout,
    fleet,
    fullsync,
    idle,
    inventory,
    inventory_beside,
    inventory_read,
    lease,
    reads,
    requests,
    responses,
    security,
    sigma,
    vulnerabilities,
)
from bench.harness import Figure, table, write_results
from bench.nodes import Bench, say

# In an order in which several figures use the same cluster.
FIGURES: dict[str, Callable[[Bench], list[Figure]]] = {
    "requests": requests.measure,
    "reads": reads.measure,
    "sync": fullsync.measure,
    "convergence": convergence.measure,
    "security": security.measure,
    "fleet": fleet.measure,
    "fanout": fanout.measure,
    "idle": idle.measure,
    "engine": engine.measure,
    "sigma": sigma.measure,
    "agents": agents_read.measure,
    "inventory": inventory.measure,
    "inventory-read": inventory_read.measure,
    "vulnerabilities": vulnerabilities.measure,
    "alerts": alerts.measure,
    "alert-nodes": alert_nodes.measure,
    "responses": responses.measure,
    "inventory-beside": inventory_beside.measure,
    "availability": availability.measure,
    "lease": lease.measure,
    "backup": backup.measure,
}


def main() -> int:
    """Status 1 if a figure could not be measured; a missed aim is a result, not a failure."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure secmon against its floors.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"figures to measure: {', '.join(FIGURES)} (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="a short run, to see that everything works")
    options = parser.parse_args()
    if unknown := set(options.names) - set(FIGURES):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    bench, load_before, started = Bench(quick=options.quick), os.getloadavg()[0], time.monotonic()
    figures: list[Figure] = []
    failed = False
    try:
        for name, take in FIGURES.items():
            if options.names and name not in options.names:
                continue
            try:
                figures += take(bench)
            except (RuntimeError, AssertionError, OSError) as error:
                failed = True
                bench.notes.append(f"{name}: failed: {error}")
                bench.stop()  # the next figure gets a fresh one
            say(f"{name} done after {time.monotonic() - started:.0f} s")
    finally:
        bench.stop()
    print(table(figures))
    print(*bench.notes, sep="\n")
    written = write_results(figures, quick=options.quick, load_before=load_before)
    print(f"{time.monotonic() - started:.0f} s; written to {written}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
