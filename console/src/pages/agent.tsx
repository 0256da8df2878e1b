// One agent: what it is, what runs on its host, and what was found there.
import { link } from "../address";
import { useState } from "preact/hooks";
import { act, at, get, type Item } from "../api";
import { useLoad } from "../load";
import { Action } from "../parts/action";
import { Empty, Loaded } from "../parts/answer";
import { Collection, type Column } from "../parts/collection";
import { Tabs } from "../parts/tabs";
import { Facts, State, Time } from "../parts/values";
import { may } from "../session";

interface View {
  name: string;
  title: string;
  needs: string;
  path: (id: string) => string;
  columns: Column[];
  sort?: string;
  empty: string;
}

const NOTHING_YET = "The agent has not reported any yet.";

const VIEWS: View[] = [
  {
    name: "packages", title: "Packages", needs: "syscollector:read", path: (id) => at`/syscollector/${id}/packages`, sort: "name", empty: NOTHING_YET,
    columns: [
      { name: "name", title: "Name" }, { name: "version", title: "Version" }, { name: "architecture", title: "Architecture", wide: true },
      { name: "format", title: "Format", wide: true }, { name: "vendor", title: "Vendor", wide: true },
    ],
  },
  {
    name: "ports", title: "Ports", needs: "syscollector:read", path: (id) => at`/syscollector/${id}/ports`, sort: "local.port", empty: NOTHING_YET,
    columns: [
      { name: "local.port", title: "Port" }, { name: "protocol", title: "Protocol" }, { name: "local.ip", title: "Address" },
      { name: "state", title: "State" }, { name: "process", title: "Process", wide: true }, { name: "pid", title: "Process id", wide: true },
    ],
  },
  {
    name: "processes", title: "Processes", needs: "syscollector:read", path: (id) => at`/syscollector/${id}/processes`, sort: "pid", empty: NOTHING_YET,
    columns: [
      { name: "pid", title: "Id" }, { name: "name", title: "Name" }, { name: "euser", title: "User" },
      { name: "cmd", title: "Command", wide: true }, { name: "state", title: "State", wide: true },
    ],
  },
  {
    name: "integrity", title: "Integrity", needs: "syscheck:read", path: (id) => at`/syscheck/${id}`, sort: "-mtime",
    empty: "The agent has not reported any file that it watches.",
    columns: [
      { name: "file", title: "File" }, { name: "type", title: "Type", wide: true }, { name: "changes", title: "Changes" },
      { name: "mtime", title: "Modified", show: ({ mtime }) => <Time at={mtime} /> },
      { name: "uname", title: "Owner", wide: true }, { name: "size", title: "Bytes", wide: true },
      { name: "sha256", title: "SHA-256", wide: true, show: ({ sha256 }) => <code title={sha256}>{sha256?.slice(0, 12)}</code> },
    ],
  },
  {
    name: "assessment", title: "Assessment", needs: "sca:read", path: (id) => at`/sca/${id}`,
    empty: "No policy has been assessed on this host yet.",
    columns: [
      { name: "name", title: "Policy", show: ({ name, policy_id }) => <a href={`${location.hash.split("?")[0]}/${encodeURIComponent(policy_id)}`}>{name}</a> },
      { name: "score", title: "Score", show: ({ score }) => <meter min={0} max={100} low={50} high={80} optimum={100} value={score} title={`${score} %`}>{score} %</meter> },
      { name: "pass", title: "Passed" }, { name: "fail", title: "Failed" }, { name: "invalid", title: "Not applicable", wide: true },
      { name: "end_scan", title: "Assessed", wide: true, show: ({ end_scan }) => <Time at={end_scan} /> },
    ],
  },
  {
    name: "vulnerabilities", title: "Vulnerabilities", needs: "vulnerability:read", path: (id) => at`/vulnerability/${id}`, sort: "-cvss3_score",
    empty: "No known vulnerability was found on this host.",
    columns: [
      { name: "cve", title: "CVE" }, { name: "severity", title: "Severity", show: ({ severity }) => <State of={severity} /> },
      { name: "cvss3_score", title: "CVSS 3" }, { name: "name", title: "Package" }, { name: "version", title: "Version", wide: true },
      { name: "condition", title: "Condition", wide: true },
      { name: "detection_time", title: "Found", wide: true, show: ({ detection_time }) => <Time at={detection_time} /> },
    ],
  },
];

const CHECKS: Column[] = [
  { name: "id", title: "Id" }, { name: "title", title: "Check" }, { name: "result", title: "Result", show: ({ result }) => <State of={result} /> },
  { name: "remediation", title: "What to do", sort: false, wide: true },
];

// Parts of the configuration in force that agents answer for.
const IN_FORCE = [
  "agent/client", "agent/buffer", "agent/labels", "agent/internal", "syscheck/syscheck", "syscheck/rootcheck", "logcollector/localfile",
  "logcollector/socket", "com/active-response", "com/logging", "com/internal", "wmodules/wmodules",
];

export function Agent({ id, view, part }: { id: string; view: string; part?: string }) {
  const load = useLoad((signal) => get("/agents", { agents_list: id }, signal), [id], 30);
  const views = VIEWS.filter(({ needs }) => may(needs));
  const shown = views.find(({ name }) => name === view);
  return (
    <Loaded load={load}>
      {({ data }) => {
        const agent = data.affected_items[0];
        if (!agent) return <Empty>{data.failed_items[0]?.error.message ?? "There is no such agent."}</Empty>;
        return (
          <>
            <p class="crumbs"><a href={link(["agents"])}>Agents</a></p>
            <div class="toolbar">
              <h1>{agent.name} <span class="quiet">{id}</span> <State of={agent.status} /></h1>
              {may("alerts:read") && <a href={link(["alerts"], { q: `agent.id=${id}` })}>Its alerts</a>}
              {id !== "000" && <Commands id={id} name={agent.name} />}
            </div>
            <Tabs path={["agents", id]} current={shown?.name ?? view}
              tabs={[["", "Summary"], ...views.map(({ name, title }): [string, string] => [name, title]), ["configuration", "Configuration"]]} />
            {view === "configuration" ? <Configuration id={id} /> : shown?.name === "assessment" && part ? (
              <Collection key={part} path={at`/sca/${id}/checks/${part}`} caption={`Checks of ${part}`} columns={CHECKS} sort="id" />
            ) : shown ? (
              <Collection key={shown.name} path={shown.path(id)} caption={`${shown.title} of ${agent.name}`} columns={shown.columns}
                sort={shown.sort} empty={shown.empty} />
            ) : <Summary agent={agent} />}
          </>
        );
      }}
    </Loaded>
  );
}

function Commands({ id, name }: { id: string; name: string }) {
  return (
    <>
      <Action label="Scan files" title={`Have ${name} scan for changed files now?`} needs="syscheck:run"
        run={() => act("PUT", "/syscheck", { query: { agents_list: id } })} />
      <Action label="Restart" title={`Restart the agent ${name}?`} needs="agent:restart" run={() => act("PUT", at`/agents/${id}/restart`)} />
    </>
  );
}

function Configuration({ id }: { id: string }) {
  const [part, setPart] = useState(IN_FORCE[0]!);
  const [component = "", name = ""] = part.split("/");
  const load = useLoad((signal) => get<Item>(at`/agents/${id}/config/${component}/${name}`, {}, signal), [id, part]);
  return (
    <>
      <div class="filters">
        <label>
          <span>Part of the configuration in force</span>
          <select value={part} onChange={(event) => setPart(event.currentTarget.value)}>{IN_FORCE.map((one) => <option key={one}>{one}</option>)}</select>
        </label>
      </div>
      <Loaded load={load}>{({ data }) => <pre tabIndex={0}>{JSON.stringify(data, null, 2)}</pre>}</Loaded>
    </>
  );
}

function Summary({ agent }: { agent: Item }) {
  return (
    <div class="cards">
      <section class="card" aria-labelledby="agent-facts">
        <h2 id="agent-facts">Agent</h2>
        <dl class="facts">
          <div><dt>Version</dt><dd>{agent.version ?? "–"}</dd></div>
          <div><dt>Address</dt><dd>{agent.ip}</dd></div>
          <div><dt>Node</dt><dd>{agent.node_name}</dd></div>
          <div><dt>Enrolled</dt><dd><Time at={agent.dateAdd} /></dd></div>
          <div><dt>Last seen</dt><dd><Time at={agent.lastKeepAlive} /></dd></div>
          <div><dt>Group files</dt><dd><State of={agent.group_config_status} /></dd></div>
          <div><dt>Groups</dt><dd>{(agent.group ?? []).map((group: string) => <a key={group} class="tag" href={link(["groups", group])}>{group}</a>)}</dd></div>
        </dl>
      </section>
      {agent.os && <section class="card" aria-labelledby="agent-system"><h2 id="agent-system">System</h2><Facts of={agent.os} /></section>}
      {may("syscollector:read") && agent.id !== "000" && <Hardware id={agent.id} />}
    </div>
  );
}

function Hardware({ id }: { id: string }) {
  const load = useLoad((signal) => get(at`/syscollector/${id}/hardware`, {}, signal), [id]);
  return (
    <section class="card" aria-labelledby="agent-hardware">
      <h2 id="agent-hardware">Hardware</h2>
      <Loaded load={load}>
        {({ data }) => data.affected_items[0] ? <Facts of={data.affected_items[0]} hide={["scan", "agent_id"]} /> : <Empty>{NOTHING_YET}</Empty>}
      </Loaded>
    </section>
  );
}
