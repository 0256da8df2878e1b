"""The worked example of manager.md 2.5."""

XML = """\
<ossec_config>
  <global><logall>no</logall><email_to>night@example.net</email_to><email_to>day@example.net</email_to>
    <white_list>10.20.0.0/16</white_list>
    <limits><eps><maximum>900</maximum><timeframe>5</timeframe></eps></limits></global>
  <remote><connection>secure</connection><port>1514</port><protocol>tcp, udp</protocol></remote>
  <remote><connection>syslog</connection><allowed-ips>10.1.0.0/24</allowed-ips><allowed-ips>10.2.0.0/24</allowed-ips></remote>
  <syscheck>
    <directories check_all="yes" realtime="yes">/srv/app, /srv/web</directories>
    <directories>/opt</directories>
    <ignore>/srv/app/cache</ignore><ignore type="sregex">.bak$|.old$</ignore>
    <synchronization><enabled>yes</enabled><max_eps>25</max_eps></synchronization>
    <whodata><audit_key>k1,k2</audit_key></whodata>
    <file_limit><enabled>yes</enabled><entries>5000</entries></file_limit></syscheck>
  <localfile><log_format>syslog</log_format><location>/var/log/app.log</location>
    <ignore>debug</ignore><ignore type="osregex">^trace</ignore><label key="tier">gold</label></localfile>
  <labels><label key="site.name" hidden="yes">north</label><label key="rack">b7</label></labels>
  <wodle name="syscollector"><disabled>no</disabled><ports all="no">yes</ports></wodle>
  <wodle name="command"><tag>uptime</tag><command>/usr/bin/uptime</command></wodle>
  <command><name>notify</name><executable>notify</executable></command>
  <sca><enabled>yes</enabled><policies><policy>etc/shared/base.yml</policy><policy enabled="no">/x.yml</policy></policies></sca>
  <indexer><enabled>yes</enabled><hosts><host>https://idx-a:9200</host><host>https://idx-b:9200</host></hosts>
    <ssl><certificate_authorities><ca>/c/root.pem</ca></certificate_authorities><certificate>/c/n.pem</certificate></ssl></indexer>
  <auth><disabled>no</disabled><force><enabled>yes</enabled><disconnected_time enabled="yes">1h</disconnected_time></force></auth>
  <logging><log_format>plain</log_format></logging>
</ossec_config>
<ossec_config>
  <global><logall>yes</logall><white_list>192.0.2.7</white_list></global>
  <ruleset><decoder_dir>ruleset/decoders</decoder_dir><rule_dir pattern=".xml$">etc/rules</rule_dir>
    <list>etc/lists/a</list><list>etc/lists/b</list></ruleset>
</ossec_config>
"""  # noqa: E501

JSON = """\
{"global": {"logall": "yes", "email_to": "day@example.net", "white_list": ["10.20.0.0/16", "192.0.2.7"],
            "limits": {"eps": [{"maximum": ["900"], "timeframe": ["5"]}]}},
 "remote": [{"connection": "secure", "port": "1514", "protocol": ["tcp", "udp"]},
            {"connection": "syslog", "allowed-ips": "10.2.0.0/24"}],
 "syscheck": {"directories": [{"check_all": "yes", "realtime": "yes", "path": "/srv/app"},
                              {"check_all": "yes", "realtime": "yes", "path": "/srv/web"}, {"path": "/opt"}],
              "ignore": ["/srv/app/cache", {"type": "sregex", "item": ".bak$|.old$"}],
              "synchronization": {"enabled": "yes", "max_eps": "25"}, "whodata": {"audit_key": ["k1", "k2"]},
              "file_limit": {"enabled": ["yes"], "entries": ["5000"]}},
 "localfile": [{"log_format": "syslog", "location": "/var/log/app.log",
                "ignore": ["debug", {"type": "osregex", "item": "^trace"}], "label": {"key": "tier", "item": "gold"}}],
 "labels": [{"label": [{"value": "north", "key": "site.name", "hidden": "yes"}, {"value": "b7", "key": "rack"}]}],
 "syscollector": {"disabled": "no", "ports": {"all": "no", "item": "yes"}},
 "command": [{"tag": "uptime", "command": "/usr/bin/uptime"}, {"name": "notify", "executable": "notify"}],
 "sca": {"enabled": "yes", "policies": ["etc/shared/base.yml", "/x.yml"]},
 "indexer": {"enabled": "yes", "hosts": ["https://idx-a:9200", "https://idx-b:9200"],
             "ssl": {"certificate_authorities": [{"ca": ["/c/root.pem"]}], "certificate": ["/c/n.pem"]}},
 "auth": {"disabled": "no", "force": {"enabled": ["yes"], "disconnected_time": [{"enabled": "yes", "item": "1h"}]}},
 "ruleset": {"decoder_dir": ["ruleset/decoders"], "rule_dir": [{"pattern": ".xml$", "item": "etc/rules"}],
             "list": ["etc/lists/a", "etc/lists/b"]}}
"""
