// One agent: what it is, what runs on its host, and what was found there.
import { link } from "../address";
import { useState } from "preact/hooks";
import { at, get, type Item } from "../api";
import { useLoad } from "../load";
import { Empty, Loaded } from "../parts/answer";
import { Tabs } from "../parts/tabs";
import { Facts, State, Time } from "../parts/values";
import { may } from "../session";
import { Commands } from "./agentcommands";
import { NOTHING_YET, Reported, VIEWS } from "./agentviews";

// Parts of the configuration in force that agents answer for.
const IN_FORCE = [
  "agent/client", "agent/buffer", "agent/labels", "agent/internal", "syscheck/syscheck", "syscheck/rootcheck", "logcollector/localfile",
  "logcollector/socket", "com/active-response", "com/logging", "com/internal", "wmodules/wmodules",
];

const tab = ({ name, title }: { name: string; title: string }): [string, string] => [name, title];

export function Agent({ id, view, part }: { id: string; view: string; part?: string }) {
  const load = useLoad((signal) => get("/agents", { agents_list: id }, signal), [id], 30);
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
              {id !== "000" && <Commands id={id} name={agent.name} then={load.again} />}
            </div>
            <Tabs path={["agents", id]} current={view} tabs={[["", "Summary"], ...VIEWS.filter(({ needs }) => may(needs)).map(tab), ["configuration", "Configuration"]]} />
            {view === "configuration" ? <Configuration id={id} /> : view ? <Reported {...{ id, view, part }} /> : <Summary agent={agent} />}
          </>
        );
      }}
    </Loaded>
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
