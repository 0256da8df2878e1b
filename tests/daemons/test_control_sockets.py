"""The supervisor as the other packages see it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.daemons.control_sockets import SupervisorClient, control_server


async def answer(name: str, request: Mapping[str, Any]) -> object:
    return request


@pytest.mark.anyio
async def test_control_without_a_supervisor(root: Path) -> None:
    (root / "queue/sockets").mkdir(parents=True)
    control = SupervisorClient(Paths(root))
    with pytest.raises(SecmonError) as caught:
        await control.restart()
    assert caught.value.code == 1901
    server = control_server(root / "toy", answer, None)
    await server.open()
    (root / "queue/sockets/control").hardlink_to(root / "toy")
    await server.close()
    with pytest.raises(SecmonError) as caught:
        await control.restart()
    assert caught.value.code == 1902
    assert set((await control.known_states()).values()) == {"stopped"}
