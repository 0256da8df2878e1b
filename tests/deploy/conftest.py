"""The wheel of this source tree, built once."""

from pathlib import Path

import pytest

from tests.deploy.wheels import build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See ``wheels.build``."""
    return build(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))
