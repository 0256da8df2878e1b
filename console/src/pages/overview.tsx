import { DEFAULT_RANGE, countsByLevel, ruleNames, top } from "../alerts";
import { get } from "../api";
import { link } from "../address";
import { useLoad } from "../load";
import { Empty, Loaded, MissingNodes } from "../parts/answer";
import { State, number, plural } from "../parts/values";
import { Plot } from "../parts/plot";
import { Ranking } from "../parts/ranking";
import { may } from "../session";
import { Attention } from "./attention";

const EVERY = 20; // seconds

export function Overview() {
  return (
    <>
      <h1>Overview</h1>
      <div class="cards">
        <Attention />
        {may("alerts:read") && <Alerts />}
        {may("agent:read") && <Agents />}
        {may("cluster:read") && <Nodes />}
      </div>
    </>
  );
}

const LAST_DAY = { since: DEFAULT_RANGE };

function Alerts() {
  const load = useLoad((signal) => countsByLevel(LAST_DAY, signal), [], EVERY * 2);
  return (
    <>
      <section class="card across" aria-labelledby="alerts-over-time">
        <h2 id="alerts-over-time"><a href={link(["alerts"])}>Alerts of the last 24 hours</a></h2>
        <Loaded load={load}>{({ times, series }) => <Plot label="Alerts over time" times={times} series={series} />}</Loaded>
      </section>
      <Top title="Rules with most alerts" field="rule.id" names={ruleNames} />
      <Top title="Agents with most alerts" field="agent.name" />
      <Top title="Techniques seen most" field="rule.mitre.technique" />
    </>
  );
}

interface TopProps {
  title: string;
  field: string;
  names?: (values: string[], signal: AbortSignal) => Promise<Record<string, string>>;
}

function Top({ title, field, names = async () => ({}) }: TopProps) {
  const load = useLoad((signal) => top(field, LAST_DAY, signal), [field], EVERY * 2);
  const values = Object.keys(load.value ?? {}).sort();
  const labels = useLoad((signal) => names(values, signal), [values]).value ?? {};
  return (
    <section class="card" aria-labelledby={field}>
      <h2 id={field}>{title}</h2>
      <Loaded load={load}>
        {(counts) => Object.keys(counts).length ? (
          <Ranking of={counts} to={(value) => link(["alerts"], { q: `${field}=${value}` })} label={(value) => labels[value] ?? value} />
        ) : <Empty>None in the last 24 hours.</Empty>}
      </Loaded>
    </section>
  );
}

interface Summary {
  status: Record<string, number>;
  os: Record<string, number>;
  groups: Record<string, number>;
}

function Agents() {
  const load = useLoad((signal) => get<Summary>("/agents/summary", {}, signal), [], EVERY);
  return (
    <>
      <section class="card" aria-labelledby="agents-by-state">
        <h2 id="agents-by-state">Agents</h2>
        <Loaded load={load}>{({ data }) => <States of={data.status} />}</Loaded>
      </section>
      <section class="card" aria-labelledby="agents-by-system">
        <h2 id="agents-by-system">Systems</h2>
        <Loaded load={load}>{({ data }) => <Ranking of={data.os} to={(name) => link(["agents"], { q: `os.platform=${name}` })} />}</Loaded>
      </section>
    </>
  );
}

function States({ of }: { of: Record<string, number> }) {
  const total = Object.values(of).reduce((sum, count) => sum + count, 0);
  return (
    <>
      <p class="figure"><a href={link(["agents"])}>{number(total)}</a></p>
      <ul class="counts">
        {Object.entries(of).map(([state, count]) => (
          <li key={state}><a href={link(["agents"], { q: `status=${state}` })}><State of={state} /> {number(count)}</a></li>
        ))}
      </ul>
    </>
  );
}

function Nodes() {
  const load = useLoad((signal) => get("/cluster/healthcheck", {}, signal), [], EVERY);
  return (
    <section class="card" aria-labelledby="nodes-health">
      <h2 id="nodes-health">Nodes</h2>
      <Loaded load={load}>
        {({ data, dapi_errors }) => (
          <>
            <p class="figure"><a href={link(["cluster"])}>{data.total_affected_items}</a></p>
            <ul class="counts column">
              {data.affected_items.map(({ info }) => (
                <li key={info.name}>
                  <a href={link(["cluster", info.name])}>{info.name}</a> <span class="quiet">{info.type}</span>{" "}
                  {plural(info.n_active_agents, "agent")}
                </li>
              ))}
            </ul>
            <MissingNodes errors={dapi_errors} />
          </>
        )}
      </Loaded>
    </section>
  );
}
