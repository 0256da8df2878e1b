"""The certificate authority in the store of record."""

import pytest

from secmon.cluster.record.authority_record import get_authority, put_authority
from secmon.cluster.record.engine import RecordAddress
from secmon.cluster.record.schema import authority
from secmon.common.errors import SecmonError
from tests.cluster.record.kit import Record

KEY = "k" * 32


def test_the_authority_is_sealed(record: RecordAddress) -> None:
    store = Record(record)
    with store.engine.begin() as connection:
        assert get_authority(connection, KEY) is None
        put_authority(connection, KEY, b"certificate", b"first key")
        put_authority(connection, KEY, b"certificate", b"private key")
        assert get_authority(connection, KEY) == (b"certificate", b"private key")
        (row,) = connection.execute(authority.select()).all()
        assert b"private" not in bytes(row.sealed_key)
        with pytest.raises(SecmonError) as failure:
            get_authority(connection, "x" * 32)
        assert failure.value.code == 3025
    store.close()
