"""Changes of the security configuration."""

import pytest

from secmon.common.errors import SecmonError
from secmon.security.rbac.model import Settings
from secmon.security.settings import reset_security_config, set_security_config
from secmon.security.store.security_store import SecurityStore


def test_security_configuration_merges(store: SecurityStore) -> None:
    with store.write() as tx:
        assert set_security_config(tx, auth_token_exp_timeout=60) == Settings(60, "white")
    with store.write() as tx:
        assert set_security_config(tx, rbac_mode="black") == Settings(60, "black")
    view = store.view()
    assert (view.settings, view.revoked_all) == (Settings(60, "black"), store.revision())
    with store.write() as tx:
        assert reset_security_config(tx) == Settings(900, "white")
    assert store.view().settings == Settings()
    with pytest.raises(SecmonError, match="4021"), store.write() as tx:
        set_security_config(tx)
    with pytest.raises(ValueError, match="at least 1"), store.write() as tx:
        set_security_config(tx, auth_token_exp_timeout=0)
