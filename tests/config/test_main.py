"""The main configuration: typed cluster section and validation of the whole (manager.md 4, cluster.md 2)."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.config.cluster import StoreOfRecord, wrong_values
from secmon.config.main import (
    ClusterSection,
    Problem,
    check_main_config,
    load_main_config,
    main_config_template,
    parse_main_config,
    validate_main_config,
)
from tests.config import example

KEY = "Zq83kfL0a9TtB1xW7mNc5vRy2hJd6eUo"
GOOD = {"name": "eu-west", "node_name": "alpha", "node_type": "master", "key": KEY, "port": "1516"}


def cluster_xml(nodes: tuple[str, ...] = ("10.9.0.1",), /, **options: str) -> str:
    lines = "".join(f"<{name}>{value}</{name}>\n" for name, value in (GOOD | options).items())
    inner = "".join(f"<node>{node}</node>" for node in nodes)
    return f"<ossec_config>\n<cluster>\n{lines}<nodes>{inner}</nodes>\n</cluster>\n</ossec_config>"


def sections(xml: str) -> list[Problem]:
    return validate_main_config(f"<ossec_config>\n{xml}\n</ossec_config>")


def test_a_good_cluster_section() -> None:
    assert validate_main_config(cluster_xml()) == []
    config = parse_main_config(cluster_xml(hidden="yes", bind_addr="10.9.0.1", node_type="client"))
    assert config.cluster == ClusterSection(
        name="eu-west",
        node_name="alpha",
        node_type="worker",
        key=KEY,
        port=1516,
        bind_addr="10.9.0.1",
        nodes=["10.9.0.1"],
        hidden=True,
    )
    assert config.cluster.master == "10.9.0.1"
    assert check_main_config(cluster_xml(hidden="yes")).warnings == []


def test_shape_for_clients() -> None:
    cluster = parse_main_config(cluster_xml(node_name="beta", node_type="worker")).cluster
    shown = {
        "disabled": False, "node_type": "worker", "name": "eu-west", "node_name": "beta", "key": KEY, "port": 1516,
        "bind_addr": "0.0.0.0", "nodes": ["10.9.0.1"], "hidden": "no",
    }  # fmt: skip
    assert cluster.as_dict(reveal_key=True) == shown
    assert cluster.as_dict() == shown | {"key": "*****"}


def test_defaults() -> None:
    assert parse_main_config("<ossec_config/>").cluster == ClusterSection(disabled=True)
    minimal = f"<ossec_config><cluster><key>{KEY}</key><nodes><node>a</node></nodes></cluster></ossec_config>"
    assert parse_main_config(minimal).cluster == ClusterSection(key=KEY, nodes=["a"])
    assert ClusterSection().name == "secmon"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"key": KEY[:31]}, "key"),
        ({"key": KEY + "x"}, "key"),
        ({"key": KEY[:31] + "-"}, "key"),
        ({"key": KEY[:31] + "é"}, "key"),
        ({"key": ""}, "key"),
        ({"port": "1024"}, "port"),
        ({"port": "65535"}, "port"),
        ({"port": "many"}, "port"),
        ({"port": "-1516"}, "port"),
        ({"port": ""}, "port"),
        ({"disabled": "maybe"}, "disabled"),
        ({"hidden": "true"}, "hidden"),
        ({"node_type": "slave"}, "node_type"),
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a,b"}, "name"),
        ({"name": "a" * 257}, "name"),
        ({"node_name": ""}, "node_name"),
        ({"node_name": "n" * 65}, "node_name"),
        ({"node_name": "a.b"}, "node_name"),
        ({"node_name": "ä"}, "node_name"),
        ({"bind_addr": "here there"}, "bind_addr"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_bad_cluster_options(options: dict[str, str], key: str) -> None:
    xml = cluster_xml(**options)
    (problem,) = validate_main_config(xml, file="/x/main.conf")
    assert (problem.file, problem.section, problem.key) == ("/x/main.conf", "cluster", key)
    assert problem.line is not None
    with pytest.raises(ConfigError) as raised:
        parse_main_config(xml)
    assert raised.value.code == 3004
    assert raised.value.key == f"cluster.{key}"


@pytest.mark.parametrize(
    ("xml", "said"),
    [
        ("<global><logall>x</logall></global>", "2: global.logall: 'x' is not allowed; allowed: yes, no"),
        ("<global><logal>no</logal></global>", "2: global.logal: there is no such name; allowed: the options "),
        ("<golbal/>", "2: golbal: there is no such name; allowed: a documented section name"),
        ("<remote/>", "2: remote.connection: missing; allowed: secure, syslog"),
        ("<global>", "3: line 3: mismatched tag; allowed: well-formed XML"),
    ],
)
def test_sentences_say_what_is_wrong_and_what_is_allowed(xml: str, said: str) -> None:
    (problem,) = sections(xml)
    assert str(problem).startswith(f"ossec.conf:{said}")


def test_sentences_without_a_value() -> None:
    (problem,) = validate_main_config("<x/>")
    assert str(problem) == "ossec.conf: <ossec_config>: missing; allowed: one such element, or several"


def test_a_node_name_that_no_certificate_could_hold() -> None:
    assert validate_main_config(cluster_xml(node_name="n" * 64)) == []
    (problem,) = validate_main_config(cluster_xml(node_name="n" * 65))
    assert str(problem).endswith("is not allowed; allowed: 1 to 64 letters, digits, '_' and '-'")


@pytest.mark.parametrize("key", [KEY[:31], KEY[:31] + "-"])
def test_a_wrong_key_stays_secret(key: str) -> None:
    assert all(key not in str(problem) for problem in validate_main_config(cluster_xml(key=key)))


@pytest.mark.parametrize(
    "node", ["localhost", "NODE_IP", "0.0.0.0", "127.0.1.1", "10.0.0.1:1516", "", "a b", "::1%a/b"]
)
def test_bad_nodes(node: str) -> None:
    (problem,) = validate_main_config(cluster_xml((node,)))
    assert (problem.key, problem.value) == ("nodes.node", node)


@pytest.mark.parametrize("node", ["127.0.0.1", "10.0.0.1", "::1", "master.example.net"])
def test_good_nodes(node: str) -> None:
    assert validate_main_config(cluster_xml((node,))) == []


def test_no_node_at_all() -> None:
    (problem,) = validate_main_config(cluster_xml(()))
    assert problem.value == "NODE_IP"


def test_a_disabled_section_may_be_incomplete_but_not_wrong() -> None:
    assert validate_main_config(cluster_xml(("NODE_IP",), disabled="yes", key="")) == []
    assert len(validate_main_config(cluster_xml(disabled="yes", node_type="boss"))) == 1


def test_the_last_section_wins_with_a_warning() -> None:
    xml = cluster_xml(name="one") + cluster_xml(name="two", port="2000")
    config = parse_main_config(xml)
    assert (config.cluster.name, config.cluster.port) == ("two", 2000)
    assert config.sections["cluster"]["name"] == "two"
    (warning,) = check_main_config(xml).warnings
    assert "only the last" in warning


def test_other_warnings() -> None:
    xml = cluster_xml(("10.0.0.1", "10.0.0.2"), interval="2m", socket_timeout="5")
    interval, nodes, unused = check_main_config(xml).warnings
    assert ["interval" in interval, "several nodes" in nodes, "socket_timeout" in unused] == [True, True, True]
    assert parse_main_config(xml).cluster.master == "10.0.0.1"


def test_a_store_of_record() -> None:
    url = "postgresql://secmon@db1,db2:5433/secmon?sslmode=verify-full"
    xml = cluster_xml(("NODE_IP",), store=url, store_password_file="etc/store.password", address="10.0.0.1")
    assert check_main_config(xml).problems == []
    section = parse_main_config(xml).cluster
    assert section.store == StoreOfRecord(url=url, password_file="etc/store.password", address="10.0.0.1")
    assert "store" not in section.as_dict()
    no_candidate = parse_main_config(cluster_xml(store=url, candidate="no")).cluster.store
    assert no_candidate == StoreOfRecord(url=url, candidate=False)
    preferred = parse_main_config(cluster_xml(store=url, preference="60")).cluster.store
    assert preferred == StoreOfRecord(url=url, preference=60)


@pytest.mark.parametrize(
    "url", ["db1", "mysql://secmon@db1/secmon", "postgresql://secmon:rosebud@db1/secmon", "postgresql://a b/%zz"]
)
def test_a_store_of_record_that_cannot_be_one(url: str) -> None:
    (problem,) = check_main_config(cluster_xml(store=url)).problems
    assert "without a password" in str(problem)
    assert "rosebud" not in str(problem)


def test_options_of_a_store_of_record_without_one() -> None:
    (warning,) = check_main_config(cluster_xml(candidate="no")).warnings
    assert "candidate has no effect without store" in warning


def test_the_worked_example_is_valid() -> None:
    assert validate_main_config(example.XML) == []


@pytest.mark.parametrize(
    "xml",
    [
        "<global><max_output_size>10M</max_output_size><rotate_interval>12h</rotate_interval></global>",
        "<global><rotate_interval>0</rotate_interval><white_list>^localhost$</white_list></global>",
        "<remote><connection>secure</connection><protocol>udp,tcp</protocol></remote>",
        "<remote><connection>secure</connection><agents><allow_higher_versions>no</allow_higher_versions></agents></remote>",
        "<remote><connection>secure</connection><agents><highest_version>4.15</highest_version></agents></remote>",
        "<auth><key_request><threads>32</threads></key_request><force_insert>x</force_insert></auth>",
        "<logging><log_format>plain, json</log_format></logging>",
        "<GLOBAL><LogAll>yes</LogAll></GLOBAL>",
        "<syscheck><anything>goes</anything></syscheck>",
        '<wodle name="syscollector"><disabled>no</disabled></wodle>',
        "<socket><name>x</name></socket><gcp-pubsub/>",
    ],
)
def test_good_sections(xml: str) -> None:
    assert sections(xml) == []


@pytest.mark.parametrize(
    ("xml", "section", "key"),
    [
        ("<bogus/>", "bogus", ""),
        ('<wodle name="bogus"/>', "wodle", "name"),
        ("<wodle/>", "wodle", "name"),
        ("<global><colour>blue</colour></global>", "global", "colour"),
        ("<global><logall>maybe</logall></global>", "global", "logall"),
        ("<global><logall><b/></logall></global>", "global", "logall"),
        ("<global><logall/></global>", "global", "logall"),
        ("<global><email_to>nobody</email_to></global>", "global", "email_to"),
        ("<global><email_maxperhour>0</email_maxperhour></global>", "global", "email_maxperhour"),
        ("<global><memory_size>2047</memory_size></global>", "global", "memory_size"),
        ("<global><max_output_size>5K</max_output_size></global>", "global", "max_output_size"),
        ("<global><rotate_interval>2d</rotate_interval></global>", "global", "rotate_interval"),
        (
            "<global><agents_disconnection_time>0</agents_disconnection_time></global>",
            "global",
            "agents_disconnection_time",
        ),
        ("<global><limits><eps><maximum>100001</maximum></eps></limits></global>", "global", "limits.eps.maximum"),
        ("<global><limits><eps><timeframe>5</timeframe></eps></limits></global>", "global", "limits.eps.maximum"),
        ("<alerts><log_alert_level>high</log_alert_level></alerts>", "alerts", "log_alert_level"),
        ("<remote><port>1514</port></remote>", "remote", "connection"),
        ("<remote><connection>secure</connection></remote>" * 2, "remote", "connection"),
        ("<remote><connection>secure</connection><port>0</port></remote>", "remote", "port"),
        ("<remote><connection>syslog</connection></remote>", "remote", "allowed-ips"),
        (
            "<remote><connection>syslog</connection><allowed-ips>10.0.0.0/8</allowed-ips><protocol>tcp,udp</protocol></remote>",
            "remote",
            "protocol",
        ),
        (
            "<remote><connection>secure</connection><agents><highest_version>new</highest_version></agents></remote>",
            "remote",
            "agents.highest_version",
        ),
        ("<auth><disabled>1</disabled></auth>", "auth", "disabled"),
        ("<auth><force><disconnected_time>soon</disconnected_time></force></auth>", "auth", "force.disconnected_time"),
        ("<auth><force><colour/></force></auth>", "auth", "force.colour"),
        ("<logging><log_format>xml</log_format></logging>", "logging", "log_format"),
    ],
)
def test_bad_sections(xml: str, section: str, key: str) -> None:
    (problem,) = sections(xml)
    assert (problem.line, problem.section, problem.key) == (2, section, key)


@pytest.mark.parametrize(
    ("xml", "line"),
    [
        ("\n<update_check_url>ftp://a/b</update_check_url>", 2),
        ("<update_check_url>http://u:p@a/b</update_check_url>", 1),
        ("<update_check_url>http://a:99999/</update_check_url>", 1),
        ("<update_check_url>http://\u00e4.example/</update_check_url>", 1),
        ("<update_check>yes</update_check>\n<update_check_url/>", 2),
    ],
)
def test_addresses_of_updates_are_checked(xml: str, line: int) -> None:
    first = next(iter(validate_main_config(f"<ossec_config><global>{xml}</global></ossec_config>")))
    assert (first.line, first.section, first.key) == (line, "global", "update_check_url")
    assert "http://" in first.allowed


@pytest.mark.parametrize(
    ("xml", "line"),
    [
        ("<update_check>yes</update_check>", 1),
        ("<logall>no</logall>\n<update_check>no</update_check>\n<update_check> yes </update_check>", 3),
        ("<update_check>yes</update_check></global>\n<global><update_check>yes</update_check>", 2),
        ("<update_check>no</update_check>", None),
        ("<update_check_url>https://a/b?c=d</update_check_url>", None),
        ("<update_check>yes</update_check></global><global><update_check_url>http://a:8080</update_check_url>", None),
        ("<update_check>yes</update_check></global><global><update_check>no</update_check>", None),
    ],
)
def test_updates_without_an_address_are_a_warning(xml: str, line: int | None) -> None:
    report = check_main_config(f"<ossec_config><global>{xml}</global></ossec_config>")
    text = f"ossec.conf:{line}: global: update_check has no effect without update_check_url"
    assert (report.problems, report.warnings) == ([], [text] if line else [])


def test_options_of_the_ruleset_and_of_log_tests() -> None:
    good = "<ruleset><rule_dir pattern='a'>x</rule_dir><list>etc/lists/a</list></ruleset>"
    assert sections(f"{good}<rule_test><threads>auto</threads><session_timeout>1h</session_timeout></rule_test>") == []
    wrong = (
        "<ruleset><rule_dirs>x</rule_dirs></ruleset><rule_test><threads>two</threads><enable>yes</enable></rule_test>"
    )
    assert [problem.key for problem in sections(wrong)] == ["rule_dirs", "threads", "enable"]


def test_local_files_that_are_not_read_are_a_warning() -> None:
    xml = "<ossec_config>\n<localfile><log_format>json</log_format><locaton>/x</locaton></localfile></ossec_config>"
    report = check_main_config(xml)
    assert (report.problems, report.warnings) == (
        [],
        [
            "ossec.conf:2: localfile: the option locaton is not known and ignored",
            "ossec.conf:2: localfile: nothing is read: the section has no location",
        ],
    )


def test_all_problems_are_collected_in_the_order_of_the_file() -> None:
    xml = "<global>\n<logall>x</logall>\n</global>\n<bogus/>\n<alerts>\n<use_geoip>x</use_geoip>\n</alerts>"
    text = cluster_xml(port="1", key="short") + f"<ossec_config>{xml}</ossec_config>"
    found = [(problem.section, problem.key) for problem in validate_main_config(text)]
    assert sorted(found[:2]) == [("cluster", "key"), ("cluster", "port")]
    assert found[2:] == [("global", "logall"), ("bogus", ""), ("alerts", "use_geoip")]


def test_warnings_do_not_make_a_configuration_invalid() -> None:
    report = check_main_config(
        "<ossec_config><global><compress_alerts>yes</compress_alerts></global>"
        "<remote><connection>secure</connection><protocol>tcp,sctp</protocol></remote></ossec_config>"
    )
    assert report.problems == []
    assert ["compress_alerts" in report.warnings[0], "sctp" in report.warnings[1]] == [True, True]


def test_broken_xml_is_one_problem_with_its_line() -> None:
    (problem,) = validate_main_config("<ossec_config>\n<global>\n</ossec_config>")
    assert problem.line == 3
    assert "well-formed" in str(problem)


def test_a_file_without_a_root() -> None:
    assert len(validate_main_config("")) == len(validate_main_config("<other/>")) == 1


def test_files(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    (problem,) = validate_main_config(paths)
    assert str(paths.main_config) in str(problem)
    with pytest.raises(ConfigError) as raised:
        load_main_config(paths)
    assert raised.value.code == 1101
    paths.etc.mkdir()
    paths.main_config.write_text(cluster_xml())
    assert validate_main_config(paths) == []
    assert load_main_config(paths).cluster.name == "eu-west"
    paths.main_config.write_text(cluster_xml() + "<b>")
    with pytest.raises(ConfigError, match=r"line 1\d"):
        load_main_config(paths)


def test_typed_access() -> None:
    config = parse_main_config(
        "<ossec_config><global><update_check>no</update_check>"
        "<agents_disconnection_time> 10m </agents_disconnection_time></global>"
        '<auth><force><disconnected_time enabled="no">2h</disconnected_time></force><port>7</port></auth>'
        "<remote><port>1</port></remote><remote><port>2</port></remote></ossec_config>"
    )
    assert config.flag("global", "update_check", default=True) is False
    assert config.flag("global", "logall", default=True) is True
    assert config.seconds("global", "agents_disconnection_time", default=1) == 600
    assert config.seconds("auth", "force", "disconnected_time", default=1) == 7200
    assert config.text("auth", "force", "disconnected_time", "enabled") == "no"
    assert config.integer("auth", "port", default=1515) == 7
    assert config.integer("auth", "threads", default=3) == 3
    assert config.text("remote", "port") == "2"
    assert config.text("nothing", "at", "all", default="x") == "x"


HOSTS = st.from_regex(r"[a-z][a-z0-9]{0,10}(\.[a-z]{2,5})?", fullmatch=True).filter(lambda host: host != "localhost")
CLUSTERS = st.builds(
    ClusterSection,
    disabled=st.booleans(),
    name=st.from_regex(r"[!-'\-.0-9:<=>?A-Z\[\\\]^_`a-z{|}~]{1,20}", fullmatch=True)
    | st.lists(st.sampled_from(["<", "]]>", "&amp", "&lt", "<![CDATA[", "<!--", "-->", "<name>", "\\", "a"])).map(
        lambda parts: "".join(["x", *parts])
    ),
    node_name=st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True),
    node_type=st.sampled_from(["master", "worker"]),
    key=st.from_regex(r"[A-Za-z0-9_]{32}", fullmatch=True),
    port=st.integers(1025, 65534),
    bind_addr=HOSTS | st.ip_addresses().map(str),
    nodes=st.lists(HOSTS, min_size=1, max_size=3),
    hidden=st.booleans(),
)


_PIECES = [
    "x",
    "10.0.0.1",
    "fe80::1%",
    "<",
    ">",
    "</name>",
    "</node><node>",
    '"',
    "'",
    "&",
    "&lt;",
    "\n",
    " ",
    "\0",
    "é",
]
_ANYTHING = st.lists(st.sampled_from(_PIECES), max_size=4).map("".join) | st.text(max_size=10)


@settings(max_examples=200)
@given(
    st.builds(
        ClusterSection,
        name=st.just("secmon") | _ANYTHING,
        node_name=st.just("node01") | _ANYTHING,
        key=st.just(KEY) | _ANYTHING,
        bind_addr=st.just("::") | _ANYTHING,
        nodes=st.lists(st.just("10.0.0.1") | _ANYTHING, min_size=1, max_size=1),
    )
)
def test_what_is_written_reads_back_or_is_refused(cluster: ClusterSection) -> None:
    """No value reaches beyond its element."""
    if not list(wrong_values(cluster)):
        assert parse_main_config(main_config_template(cluster)).cluster == cluster


@settings(max_examples=100)
@given(CLUSTERS)
def test_the_template_reads_back(cluster: ClusterSection) -> None:
    text = main_config_template(cluster)
    assert validate_main_config(text) == []
    assert parse_main_config(text).cluster == cluster


def test_the_template_of_a_stand_alone_node() -> None:
    text = main_config_template(None)
    assert validate_main_config(text) == []
    assert parse_main_config(text).cluster == ClusterSection(disabled=True)


@settings(max_examples=100)
@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    assert all(str(problem) for problem in validate_main_config(text))
    assert validate_main_config(f"<ossec_config><global>{text}</global></ossec_config>") is not None
