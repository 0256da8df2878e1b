"""Changes of users."""

import pytest

from secmon.common.errors import SecmonError
from secmon.security.credentials import authenticate
from secmon.security.store.security_store import SecurityStore
from secmon.security.user_changes import set_password
from tests.manual_clock import ManualClock


def test_set_password(store: SecurityStore, clock: ManualClock) -> None:
    with store.write() as tx:
        set_password(tx, 100, "Another-1", clock)
    assert authenticate(store.view(), "mira", "Another-1").revoked == store.revision()
    with pytest.raises(SecmonError, match="5001") as caught, store.write() as tx:
        set_password(tx, 999, "Another-1", clock)
    assert caught.value.ids == (999,)
    with pytest.raises(SecmonError, match="5007"), store.write() as tx:
        set_password(tx, 100, "weakpassword", clock)
