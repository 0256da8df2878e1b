"""What the master changes in the security state by itself: the signing key, default policies of later versions, and
silences and acknowledgements that are over.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from secmon.alerts.acknowledgements import LONGEST, forget_older
from secmon.alerts.silences import forget_ended
from secmon.cluster.node import Node
from secmon.common.errors import SecmonError
from secmon.config.alert_store import AlertStoreSettings
from secmon.security.audit import Actor, audited
from secmon.security.key_rotation import retire_signing_keys, rotate_signing_key
from secmon.security.origin import add_policies, missing_policies
from secmon.security.signing_keys import KEY_LIFE_SECONDS
from secmon.security.store.transaction import WriteTransaction

log = logging.getLogger("secmon.clusterd.master")

CHECK_SECONDS = 3600


class SecurityMaintenance:
    """Checks at the start and each hour."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def run(self) -> None:
        """Work until cancelled. What fails is logged, and tried again at the next check."""
        while True:
            for failure, work in (
                ("the key that signs tokens was not renewed", self.renew_signing_key),
                ("default policies were not added", self.add_default_policies),
                ("old silences and acknowledgements were not deleted", self.forget_triage),
            ):
                try:
                    await asyncio.to_thread(work)
                except SecmonError as error:
                    log.error("%s: %s", failure, error.message)
            await asyncio.sleep(CHECK_SECONDS)

    def renew_signing_key(self) -> None:
        """Without any key, too: a store of an earlier version has lost its own. Raises SecmonError."""
        clock = self._node.clock
        key = self._node.security.view().signing_key
        if key is None or clock.now().timestamp() - key.created > KEY_LIFE_SECONDS:
            with self._transaction("renew signing key") as transaction:
                retire_signing_keys(transaction, clock, older_than_seconds=KEY_LIFE_SECONDS + CHECK_SECONDS)
                rotate_signing_key(transaction, clock)
            log.info("tokens are signed with a new key from now on")

    def add_default_policies(self) -> None:
        """Give a store of an earlier version the policies that came later. Raises SecmonError."""
        missing = missing_policies(self._node.security.view().policies)
        if not missing:
            return
        with self._transaction("add default policies") as transaction:
            added = add_policies(transaction, missing, self._node.clock)
        if added:
            log.info("default policies were added: %s", ", ".join(added))

    def forget_triage(self) -> None:
        """Delete silences that have ended long ago, and acknowledgements of alerts that are no longer kept here.

        Raises SecmonError.
        """
        days = AlertStoreSettings.of(self._node.main_config).keep_days
        with self._transaction("forget silences and acknowledgements") as transaction:
            silences = forget_ended(transaction, self._node.clock)
            age = timedelta(days=days) if days else LONGEST
            acknowledgements = forget_older(transaction, age, self._node.clock)
        if silences or acknowledgements:
            log.info("silences deleted: %d, acknowledgements: %d", silences, acknowledgements)

    @contextmanager
    def _transaction(self, operation: str) -> Iterator[WriteTransaction]:
        node, author = self._node, Actor(user="local", user_id=0, operation=operation)
        with audited(node.security, node.paths.audit_log, author, node.clock) as transaction:
            yield transaction
