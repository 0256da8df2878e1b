"""The main configuration file of a new installation."""

from msgspec import Struct

from secmon.config.cluster import ClusterSection


class AgentPorts(Struct, frozen=True, kw_only=True):
    """Where agents reach the node: ``connections`` for TCP and UDP, ``enrolment`` for TLS."""

    connections: int = 1514
    enrolment: int = 1515


_TEMPLATE = """\
<!-- Main configuration of this node. It is read at start: after a change run "secmon config check" and restart.
     Each node has its own file. -->
<ossec_config>

  <global>
    <!-- Alerts as JSON lines and as text. -->
    <jsonout_output>yes</jsonout_output>
    <alerts_log>yes</alerts_log>
    <!-- Every event, whether it raises an alert or not: these files grow quickly. -->
    <logall>no</logall>
    <logall_json>no</logall_json>
    <email_notification>no</email_notification>
    <!-- An agent that has been silent for this long counts as disconnected. -->
    <agents_disconnection_time>10m</agents_disconnection_time>
    <!-- The alert follows this much later. -->
    <agents_disconnection_alert_time>0</agents_disconnection_alert_time>
    <!-- Ask for newer versions of this product, once a day, on the master. With yes it needs the address of a list of
         releases, which you may keep yourself: see docs/check-for-updates.md.
         <update_check_url>https://updates.example/releases.json</update_check_url> -->
    <update_check>no</update_check>
  </global>

  <alerts>
    <!-- Lowest rule level that is written, and that is mailed. -->
    <log_alert_level>3</log_alert_level>
    <email_alert_level>12</email_alert_level>
    <!-- Alerts that can be searched: for how many days, and with which size on the disk (0: without limit). By default:
         <store>yes</store> <store_days>30</store_days> <store_size>20G</store_size> -->
  </alerts>

  <!-- Agents, and log sources of agents, that fall silent raise an alert: see docs/silent-sources.md. By default:
       <silent_sources>
         <enabled>yes</enabled>
         <learning_time>3d</learning_time>
         <shortest_silence>15m</shortest_silence> <longest_silence>1d</longest_silence>
         What is expected of the agents of a group:
         <source> <group>web</group> <location>/var/log/nginx/*</location> <interval>30m</interval> </source>
       </silent_sources> -->

  <!-- plain, json or plain,json -->
  <logging>
    <log_format>plain</log_format>
  </logging>

  <!-- Connections of agents. -->
  <remote>
    <connection>secure</connection>
    <port>{ports.connections}</port>
    <protocol>tcp</protocol>
    <queue_size>131072</queue_size>
  </remote>

  <!-- Enrolment of agents. -->
  <auth>
    <disabled>no</disabled>
    <port>{ports.enrolment}</port>
    <use_source_ip>no</use_source_ip>
    <purge>yes</purge>
    <use_password>no</use_password>
    <force>
      <enabled>yes</enabled>
      <key_mismatch>yes</key_mismatch>
      <disconnected_time enabled="yes">1h</disconnected_time>
      <after_registration_time>1h</after_registration_time>
    </force>
    <ssl_manager_cert>etc/sslmanager.cert</ssl_manager_cert>
    <ssl_manager_key>etc/sslmanager.key</ssl_manager_key>
  </auth>

  <ruleset>
    <decoder_dir>ruleset/decoders</decoder_dir>
    <rule_dir>ruleset/rules</rule_dir>
    <!-- Lists that these rules look up; they are yours to change. -->
    <list>etc/lists/audit-keys</list>
    <list>etc/lists/privileged-users</list>
    <list>etc/lists/suspicious-programs</list>
    <!-- Your own. -->
    <decoder_dir>etc/decoders</decoder_dir>
    <rule_dir>etc/rules</rule_dir>
  </ruleset>

  <rule_test>
    <enabled>yes</enabled>
    <threads>1</threads>
    <max_sessions>64</max_sessions>
    <session_timeout>15m</session_timeout>
  </rule_test>

  <!-- Cluster. name and key are the same on all nodes, node_name is unique, node_type is master or worker.
       The key has 32 letters, digits or underscores. node is the address of the master, on the master too. -->
  <cluster>
    <name>{name}</name>
    <node_name>{node_name}</node_name>
    <node_type>{node_type}</node_type>
    <key>{key}</key>
    <port>{port}</port>
    <bind_addr>{bind_addr}</bind_addr>
    <nodes>
{nodes}
    </nodes>
    <hidden>{hidden}</hidden>
    <disabled>{disabled}</disabled>
  </cluster>

</ossec_config>
"""


def main_config_template(cluster: ClusterSection | None, ports: AgentPorts | None = None) -> str:
    """Text of a commented file; without ``cluster`` its section is disabled and waits to be filled in.

    Values are to be checked first (``cluster.wrong_values``): all but the name are written as they are.
    """
    section = cluster or ClusterSection(disabled=True)
    return _TEMPLATE.format(
        # The reader knows &amp; but keeps &lt; literally.
        name=section.name.replace("&", "&amp;").replace("<", "<![CDATA[<]]>"),
        node_name=section.node_name,
        node_type=section.node_type,
        key=section.key,
        port=section.port,
        bind_addr=section.bind_addr,
        nodes="\n".join(f"      <node>{node}</node>" for node in section.nodes),
        hidden="yes" if section.hidden else "no",
        disabled="yes" if section.disabled else "no",
        ports=ports or AgentPorts(),
    )
