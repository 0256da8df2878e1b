"""One cluster for all generated requests of a test process."""

from collections.abc import Iterator

import pytest

from tests.fuzz.target import API, OPTIONS, Target
from tests.integration.kit import cluster


@pytest.fixture(scope="package")
def target() -> Iterator[Target]:
    with cluster(workers=1, single_process=True, options=OPTIONS, api=API) as running:
        found = Target(running)
        found.restore()
        yield found
        found.close()
