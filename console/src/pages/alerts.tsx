// Alerts of all nodes: found, counted, followed, and one with what happened around it.
import { address, filter, link } from "../address";
import { DEFAULT_RANGE, LEVELS, RANGES, countsByLevel } from "../alerts";
import { at, get, type Collection, type Item } from "../api";
import type { Query } from "../http";
import { useLoad } from "../load";
import type { Shown } from "../pages";
import { Empty, Loaded, MissingNodes, ProblemNotice } from "../parts/answer";
import { QueryFilter, TextFilter } from "../parts/collection";
import { Plot } from "../parts/plot";
import { Table, type Column } from "../parts/table";
import { Facts, Level, Time, number } from "../parts/values";
import { useStore } from "../store";
import { useStream } from "../stream";

const PAGE = 50;
const FIELDS = [
  "rule.level", "rule.id", "rule.groups", "rule.description", "rule.mitre.id", "agent.name", "agent.id", "data.srcip", "data.dstuser",
  "decoder.name", "location", "cluster.node",
];
const COLUMNS: Column[] = [
  { name: "timestamp", title: "Time", show: ({ id, timestamp }) => <a href={link(["alerts", id])}><Time at={timestamp} /></a> },
  { name: "rule.level", title: "Level", show: ({ rule }) => <Level of={rule.level} /> },
  { name: "rule.description", title: "What has happened", show: ({ id, rule }) => <a href={link(["alerts", id])}>{rule.description}</a> },
  { name: "agent.name", title: "Agent", tight: true, show: ({ agent }) => <a href={link(["agents", agent.id])}>{agent.name}</a> },
  { name: "rule.id", title: "Rule", wide: true, show: ({ rule }) => <RuleLink id={rule.id} /> },
  { name: "rule.mitre.id", title: "ATT&CK", wide: true },
];

const RuleLink = ({ id }: { id: string }) => <a href={link(["ruleset"], { q: `id=${id}` })}>{id}</a>;

export function Alerts({ path }: Shown) {
  return path[0] ? <One id={path[0]} /> : <All />;
}

function All() {
  const { filters } = useStore(address);
  const { cursor, live, ...query } = { since: DEFAULT_RANGE, ...Object.fromEntries(filters) } as Record<string, string>;
  const followed = useStream("/alerts/stream", { ...query, since: undefined, until: undefined }, Boolean(live));
  return (
    <>
      <h1>Alerts</h1>
      <Filters query={query} live={Boolean(live)} />
      {live ? <Live {...followed} /> : <><Histogram query={query} /><Found query={query} cursor={cursor} /></>}
    </>
  );
}

const change = (changes: Record<string, string | undefined>) => filter({ cursor: undefined, ...changes });

function Filters({ query, live }: { query: Record<string, string>; live: boolean }) {
  const brushed = Boolean(query.until) || !(query.since! in RANGES);
  return (
    <div class="filters" role="search" aria-label="Filter alerts">
      <TextFilter name="search" label="Search" value={query.search ?? ""} onChange={(search) => change({ search })} />
      <QueryFilter value={query.q ?? ""} fields={FIELDS} onChange={(q) => change({ q })} />
      <label>
        <span>Level</span>
        <select value={query.level ?? ""} onChange={(event) => change({ level: event.currentTarget.value })}>
          <option value="">all</option>
          {LEVELS.map(({ level, label }) => <option key={level} value={level}>{label}</option>)}
        </select>
      </label>
      <label>
        <span>Time</span>
        <select value={brushed ? "" : query.since} disabled={live} onChange={(event) => change({ since: event.currentTarget.value, until: undefined })}>
          {brushed && <option value="">as drawn</option>}
          {Object.entries(RANGES).map(([since, label]) => <option key={since} value={since}>{label}</option>)}
        </select>
      </label>
      <button aria-pressed={live} onClick={() => change({ live: live ? undefined : "1" })}>{live ? "Stop following" : "Follow live"}</button>
    </div>
  );
}

function Histogram({ query }: { query: Query }) {
  const load = useLoad((signal) => countsByLevel(query, signal), [query]);
  const brush = (since: number, until: number) =>
    change({ since: new Date(since * 1000).toISOString(), until: new Date(until * 1000).toISOString() });
  return (
    <section class="card section" aria-label="Alerts over time">
      <Loaded load={load}>{({ times, series }) => <Plot label="Alerts over time" times={times} series={series} onBrush={brush} />}</Loaded>
    </section>
  );
}

function Found({ query, cursor }: { query: Query; cursor?: string }) {
  const load = useLoad((signal) => get<Collection & { next?: string }>("/alerts", { ...query, cursor, limit: PAGE }, signal), [query, cursor]);
  return (
    <Loaded load={load}>
      {({ data, dapi_errors }) => (
        <>
          <MissingNodes errors={dapi_errors} />
          {data.affected_items.length ? <Table caption="Alerts" columns={COLUMNS} items={data.affected_items} /> : (
            <Empty>No alert meets these filters. Choose a longer time, or take a filter away.</Empty>
          )}
          <nav class="pages" aria-label="Pages">
            <span role="status">{number(data.total_affected_items)} alerts</span>
            <button onClick={() => filter({ cursor: undefined })} disabled={!cursor}>Newest</button>
            <button onClick={() => filter({ cursor: data.next })} disabled={!data.next}>Older</button>
          </nav>
        </>
      )}
    </Loaded>
  );
}

function Live({ items, state, problem }: ReturnType<typeof useStream>) {
  return (
    <>
      <p class="quiet" role="status">{state === "following" ? "Alerts appear here as they are raised." : "Connecting …"}</p>
      <ProblemNotice problem={problem} />
      {items.length > 0 && <Table caption="Alerts as they are raised" columns={COLUMNS} items={items} />}
    </>
  );
}

function One({ id }: { id: string }) {
  const load = useLoad((signal) => get<Collection & { around?: Item[] }>(at`/alerts/${id}`, {}, signal), [id]);
  return (
    <>
      <p class="crumbs"><a href={link(["alerts"])}>Alerts</a></p>
      <Loaded load={load}>
        {({ data, dapi_errors }) => {
          const alert = data.affected_items[0];
          if (!alert) return <Empty>{data.failed_items[0]?.error.message ?? "There is no such alert."}</Empty>;
          return (
            <>
              <h1><Level of={alert.rule.level} /> {alert.rule.description}</h1>
              <MissingNodes errors={dapi_errors} />
              <Details of={alert} />
              <h2>What happened around it on this agent</h2>
              {data.around?.length ? <Table caption="Alerts around it" columns={COLUMNS} items={data.around} /> : (
                <Empty>No other alert of this agent within five minutes before and after.</Empty>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}

function Details({ of }: { of: Item }) {
  const { rule, agent, full_log, data, ...rest } = of;
  return (
    <div class="cards section">
      {full_log && <section class="card across" aria-label="The event"><h2>Event</h2><pre tabIndex={0}>{full_log}</pre></section>}
      <section class="card" aria-labelledby="alert-rule">
        <h2 id="alert-rule">Rule</h2>
        <dl class="facts">
          <div><dt>Id</dt><dd><RuleLink id={rule.id} /></dd></div>
          <div><dt>Alerts of it</dt><dd><a href={link(["alerts"], { q: `rule.id=${rule.id}` })}>of all agents</a></dd></div>
        </dl>
        <Facts of={rule} hide={["id", "description", "level"]} />
      </section>
      <section class="card" aria-labelledby="alert-agent">
        <h2 id="alert-agent">Agent</h2>
        <dl class="facts">
          <div><dt>Name</dt><dd><a href={link(["agents", agent.id])}>{agent.name}</a></dd></div>
          <div><dt>Alerts of it</dt><dd><a href={link(["alerts"], { q: `agent.id=${agent.id}` })}>all</a></dd></div>
          <div><dt>Time</dt><dd><Time at={of.timestamp} /></dd></div>
        </dl>
        <Facts of={rest} hide={["timestamp", "id", "syscheck", "previous_output"]} />
      </section>
      {data && <section class="card" aria-labelledby="alert-data"><h2 id="alert-data">Decoded fields</h2><Facts of={data} /></section>}
      {of.syscheck && <section class="card" aria-labelledby="alert-file"><h2 id="alert-file">File</h2><Facts of={of.syscheck} /></section>}
    </div>
  );
}
