"""Outputs hold back what a silence covers, each as its section says."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.config.outputs import read_outputs
from secmon.config.xml import parse_xml
from secmon.outputs.alert import Alert
from secmon.outputs.delivery import Delivery
from tests.alerts.silenced import open_master, silence
from tests.outputs.alert_files import AlertFiles
from tests.outputs.running import running
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Memory:
    """An output that keeps what it is sent."""

    name = "memory"
    most = 10

    def __init__(self, *, silences: bool) -> None:
        self.silences = silences
        self.taken: list[str] = []

    def wants(self, alert: Alert) -> bool:
        return alert.text("id") != "1700000000.9"

    async def deliver(self, alerts: Sequence[Alert]) -> int:
        self.taken += [one.text("id") for one in alerts]
        return 0

    async def close(self) -> None:
        """Nothing is kept open."""


@pytest.mark.parametrize("heeds", [True, False])
async def test_a_silence_holds_back(files: AlertFiles, heeds: bool) -> None:
    output = Memory(silences=heeds)
    with closing(open_master(Paths(files.root).security_db)) as store:
        covering = silence(store, seconds=(0, 10), levels=(0, 5))
        async with running(files, partial(Delivery, output)) as delivery:
            files.number(1, 9, timestamp="2026-11-22T12:00:09.000+0000", level=3)
            files.number(2, timestamp="2026-11-22T12:00:10.000+0000", level=3)
            await until(lambda: delivery.count("delivered") == (1 if heeds else 2))
            assert output.taken == (["1700000000.2"] if heeds else ["1700000000.1", "1700000000.2"])
            assert delivery.count("silenced") == (1 if heeds else 0)
            assert delivery.held(covering) == (1 if heeds else 0)


SECTIONS = """<ossec_config>
  <syslog_output><server>192.0.2.1</server></syslog_output>
  <syslog_output><server>192.0.2.1</server><silences>no</silences></syslog_output>
  <integration><name>slack</name></integration>
  <integration><name>slack</name><silences>no</silences></integration>
  <indexer><alerts>yes</alerts><hosts><host>https://192.0.2.1</host></hosts>{}</indexer>
</ossec_config>"""


def test_sections_say_whether_silences_hold_back(tmp_path: Path) -> None:
    for text, expected in (("", False), ("<silences>yes</silences>", True)):
        found = read_outputs(parse_xml(SECTIONS.format(text), "ossec.conf"))
        assert [one.conditions.silences for one in found.syslog] == [True, False]
        assert [one.conditions.silences for one in found.integrations] == [True, False]
        assert found.indexer is not None
        assert found.indexer.conditions.silences is expected
