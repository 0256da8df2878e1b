// Alerts of all nodes: found, counted, followed.
import { address, filter, link } from "../address";
import { DEFAULT_RANGE, LEVELS, RANGES, countsByLevel } from "../alerts";
import { get, type Collection } from "../api";
import type { Query } from "../http";
import { useLoad } from "../load";
import type { Shown } from "../pages";
import { Acknowledge } from "../parts/acknowledge";
import { AlertTable } from "../parts/alerts";
import { Empty, Loaded, MissingNodes, ProblemNotice } from "../parts/answer";
import { QueryFilter, TextFilter } from "../parts/collection";
import { Plot } from "../parts/plot";
import { Tabs } from "../parts/tabs";
import { plural } from "../parts/values";
import { may } from "../session";
import { filtersOf } from "../silences";
import { useStore } from "../store";
import { useStream } from "../stream";
import { Alert } from "./alert";
import { NewSilence, Silences } from "./silences";

const PAGE = 50;
const FIELDS = [
  "rule.level", "rule.id", "rule.groups", "rule.description", "rule.mitre.id", "agent.name", "agent.id", "data.srcip", "data.dstuser",
  "decoder.name", "location", "cluster.node",
];
const SILENCES = "silences";

export function Alerts({ path }: Shown) {
  const [id, view] = path;
  if (id && id !== SILENCES) return <Alert id={id} />;
  return (
    <>
      <h1>{view ? "Silence" : "Alerts"}</h1>
      {may("silences:read") && <Tabs path={["alerts"]} tabs={[["", "Alerts"], [SILENCES, "Silences"]]} current={id ?? ""} />}
      {!id ? <All /> : view ? <NewSilence /> : <Silences />}
    </>
  );
}

function All() {
  const { filters } = useStore(address);
  const { cursor, live, ...query } = { since: DEFAULT_RANGE, ...Object.fromEntries(filters) } as Record<string, string>;
  const followed = useStream("/alerts/stream", { ...query, since: undefined, until: undefined }, Boolean(live));
  return (
    <>
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
      <label>
        <span>Acknowledged</span>
        <select value={query.acknowledged ?? ""} onChange={(event) => change({ acknowledged: event.currentTarget.value })}>
          <option value="">yes or no</option>
          <option value="false">no</option>
          <option value="true">yes</option>
        </select>
      </label>
      <button aria-pressed={live} onClick={() => change({ live: live ? undefined : "1" })}>{live ? "Stop following" : "Follow live"}</button>
    </div>
  );
}

function Histogram({ query }: { query: Query }) {
  const load = useLoad((signal) => countsByLevel(query, signal), [query], 0, []);
  const brush = (since: number, until: number) =>
    change({ since: new Date(since * 1000).toISOString(), until: new Date(until * 1000).toISOString() });
  return (
    <section class="card section" aria-label="Alerts over time">
      <Loaded load={load}>{({ times, series }) => <Plot label="Alerts over time" times={times} series={series} onBrush={brush} />}</Loaded>
    </section>
  );
}

function Found({ query, cursor }: { query: Query; cursor?: string }) {
  const load = useLoad((signal) => get<Collection & { next?: string }>("/alerts", { ...query, cursor, limit: PAGE }, signal), [query, cursor], 0, []);
  return (
    <Loaded load={load}>
      {({ data, dapi_errors }) => (
        <div aria-busy={load.loading}>
          <MissingNodes errors={dapi_errors} />
          {data.affected_items.length ? <AlertTable caption="Alerts" items={data.affected_items} /> : (
            <Empty>No alert meets these filters. Choose a longer time, or take a filter away.</Empty>
          )}
          <nav class="pages" aria-label="Pages">
            <span role="status">{plural(data.total_affected_items, "alert")}</span>
            <Acknowledge items={data.affected_items} then={load.again} />
            {may("silences:create") && <a href={link(["alerts", SILENCES, "new"], filtersOf(address.value.filters))}>Silence these …</a>}
            <button onClick={() => filter({ cursor: undefined })} disabled={!cursor}>Newest</button>
            <button onClick={() => filter({ cursor: data.next })} disabled={!data.next}>Older</button>
          </nav>
        </div>
      )}
    </Loaded>
  );
}

function Live({ items, state, problem }: ReturnType<typeof useStream>) {
  return (
    <>
      <p class="quiet" role="status">{state === "following" ? "Alerts appear here as they are raised." : "Connecting …"}</p>
      <ProblemNotice problem={problem} />
      {items.length > 0 && <AlertTable caption="Alerts as they are raised" items={items} />}
    </>
  );
}
