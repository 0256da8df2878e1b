// The nodes: which there are, how they are, and what each one says.
import { address, filter, link } from "../address";
import { NO_CLUSTER, act, at, get, type Item } from "../api";
import { ofHealth } from "../attention";
import { useLoad } from "../load";
import type { Shown } from "../pages";
import { Action } from "../parts/action";
import { Empty, Failures, Loaded, MissingNodes, Notice } from "../parts/answer";
import { Collection, type Column } from "../parts/collection";
import { Table } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { Facts, State, Time, number } from "../parts/values";
import { may } from "../session";
import { useStore } from "../store";

const EVERY = 15; // seconds
const HERE = "this-node"; // without a cluster: the node asked

export function Cluster({ path }: Shown) {
  const [node, view = ""] = path;
  if (node) return <Node name={node} view={view} />;
  return (
    <>
      <h1>Cluster</h1>
      <Nodes />
      <div class="cards">
        {may("cluster:status") && <Status />}
        {may("cluster:read") && <Ruleset />}
        {may("cluster:read") && <Validation />}
      </div>
    </>
  );
}

const NODES: Column[] = [
  { name: "info.name", title: "Node", show: ({ info }) => <a href={link(["cluster", info.name])}>{info.name}</a> },
  { name: "info.type", title: "Role" },
  { name: "info.n_active_agents", title: "Active agents", show: ({ info }) => number(info.n_active_agents) },
  { name: "info.version", title: "Version", wide: true },
  { name: "info.ip", title: "Address", wide: true },
  { name: "status.last_keep_alive", title: "Last heartbeat", show: ({ status }) => <Time at={status?.last_keep_alive} /> },
  { name: "status.last_sync_integrity.date_end_master", title: "Files sent", wide: true, show: ({ status }) => <Time at={status?.last_sync_integrity?.date_end_master} /> },
];

function Nodes() {
  const load = useLoad((signal) => get("/cluster/healthcheck", {}, signal), [], EVERY);
  if (load.problem?.code === NO_CLUSTER) {
    return <Notice title="This node is not part of a cluster."><p><a href={link(["cluster", HERE])}>Look at this node</a></p></Notice>;
  }
  return (
    <div class="section">
      <Loaded load={load}>
        {({ data, dapi_errors }) => (
          <>
            <MissingNodes errors={dapi_errors} />
            {data.affected_items.flatMap(ofHealth).map(({ what, detail, at, kind }) => (
              <Notice key={what} kind={kind} title={what}>{at && <p><Time at={at} /></p>}{detail && <p>{detail}</p>}</Notice>
            ))}
            <Failures of={data.failed_items} />
            {data.affected_items.length ? <Table caption="Nodes" columns={NODES} items={data.affected_items} /> : <Empty>There is no node that you may see (cluster:read).</Empty>}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Status() {
  const load = useLoad((signal) => get<Item>("/cluster/status", {}, signal), [], EVERY);
  return (
    <section class="card" aria-labelledby="cluster-status">
      <h2 id="cluster-status">Status</h2>
      <Loaded load={load}>{({ data }) => <Facts of={data} />}</Loaded>
    </section>
  );
}

function Ruleset() {
  const load = useLoad((signal) => get("/cluster/ruleset/synchronization", {}, signal), [], EVERY * 4);
  return (
    <section class="card" aria-labelledby="cluster-ruleset">
      <h2 id="cluster-ruleset">Rules, decoders and lists</h2>
      <Loaded load={load}>
        {({ data, dapi_errors }) => (
          <>
            <ul class="counts column">
              {data.affected_items.map(({ name, synced }) => <li key={name}>{name} <State of={synced ? "synced" : "not synced"} /></li>)}
            </ul>
            <MissingNodes errors={dapi_errors} />
          </>
        )}
      </Loaded>
    </section>
  );
}

function Validation() {
  const load = useLoad((signal) => get("/cluster/configuration/validation", {}, signal), []);
  return (
    <section class="card" aria-labelledby="cluster-validation">
      <h2 id="cluster-validation">Configuration</h2>
      <Loaded load={load}>
        {({ data, dapi_errors }) => (
          <>
            <ul class="counts column">
              {data.affected_items.map(({ name, status, details }) => (
                <li key={name}>{name} <State of={status} /> {(details ?? []).map((one: string) => <p key={one}>{one}</p>)}</li>
              ))}
            </ul>
            <MissingNodes errors={dapi_errors} />
            <div class="actions">
              <button onClick={load.again} disabled={load.loading}>Check again</button>
              <Action label="Restart all nodes" title="Restart all nodes? Each does so only if its files are valid." danger needs="cluster:restart"
                run={() => act("PUT", "/cluster/restart")} />
            </div>
          </>
        )}
      </Loaded>
    </section>
  );
}

const VIEWS: [string, string][] = [["", "Daemons"], ["logs", "Logs"], ["counters", "Counters"], ["configuration", "Configuration"]];

function Node({ name, view }: { name: string; view: string }) {
  const base = name === HERE ? "/manager" : at`/cluster/${name}`;
  return (
    <>
      <p class="crumbs"><a href={link(["cluster"])}>Cluster</a></p>
      <h1>{name}</h1>
      <Tabs path={["cluster", name]} tabs={VIEWS} current={view} />
      {view === "" && (
        <div class="split beside">
          <div class="stack"><Daemons base={base} /><Counters base={base} /></div>
          <div><Logs base={base} name={name} /></div>
        </div>
      )}
      {view === "logs" && <Logs base={base} name={name} />}
      {view === "counters" && <Counters base={base} />}
      {view === "configuration" && <Configuration base={base} />}
    </>
  );
}

function Daemons({ base }: { base: string }) {
  const status = useLoad((signal) => get(`${base}/status`, {}, signal), [base], EVERY);
  const info = useLoad((signal) => get(`${base}/info`, {}, signal), [base]);
  return (
    <div class="cards">
      <section class="card" aria-labelledby="node-daemons">
        <h2 id="node-daemons">Daemons</h2>
        <Loaded load={status}>
          {({ data }) => (
            <ul class="counts column">
              {Object.entries<string>(data.affected_items[0] ?? {}).sort(([, one], [, other]) => one.localeCompare(other)).map(([daemon, state]) => (
                <li key={daemon}><State of={state} /> {daemon}</li>
              ))}
            </ul>
          )}
        </Loaded>
      </section>
      <section class="card" aria-labelledby="node-info">
        <h2 id="node-info">Node</h2>
        <Loaded load={info}>{({ data }) => <Facts of={data.affected_items[0] ?? {}} />}</Loaded>
      </section>
    </div>
  );
}

const LOG_COLUMNS: Column[] = [
  { name: "timestamp", title: "Time", show: ({ timestamp }) => <Time at={timestamp} /> },
  { name: "level", title: "Level", show: ({ level }) => <State of={level} /> },
  { name: "tag", title: "Daemon", wide: true },
  { name: "description", title: "Message" },
];
const LEVELS = ["critical", "error", "warning", "info", "debug"];

function Logs({ base, name }: { base: string; name: string }) {
  const level = useStore(address).filters.get("level") ?? "";
  return (
    <Collection path={`${base}/logs`} caption={`Logs of ${name}`} columns={LOG_COLUMNS} fields={["tag", "level", "timestamp", "description"]}
      sort="-timestamp" every={EVERY} query={{ level }}>
      <label>
        <span>Level</span>
        <select value={level} onChange={(event) => filter({ level: event.currentTarget.value, offset: undefined })}>
          <option value="">all</option>
          {LEVELS.map((one) => <option key={one}>{one}</option>)}
        </select>
      </label>
    </Collection>
  );
}

function Counters({ base }: { base: string }) {
  const load = useLoad((signal) => get(`${base}/daemons/stats`, {}, signal), [base], EVERY);
  return (
    <Loaded load={load}>
      {({ data }) => data.affected_items.length ? (
        <div class="cards">
          {data.affected_items.map(({ name, uptime, metrics }) => (
            <section key={name} class="card counters" aria-label={name}>
              <h2>{name}</h2>
              <p class="quiet">since <Time at={uptime} /></p>
              <Facts of={metrics ?? {}} />
            </section>
          ))}
        </div>
      ) : <Empty>The daemons of this node have counted nothing yet.</Empty>}
    </Loaded>
  );
}

function Configuration({ base }: { base: string }) {
  const load = useLoad((signal) => get(`${base}/configuration`, {}, signal), [base]);
  return (
    <Loaded load={load}>
      {({ data }) => (
        <div class="stack">
          {Object.entries<any>(data.affected_items[0] ?? {}).map(([section, value]) => (
            <details key={section} class="card"><summary>{section}</summary><pre>{JSON.stringify(value, null, 2)}</pre></details>
          ))}
        </div>
      )}
    </Loaded>
  );
}
