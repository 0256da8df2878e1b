import { get } from "../api";
import { link } from "../address";
import { useLoad } from "../load";
import { Loaded, MissingNodes } from "../parts/answer";
import { State, number, plural } from "../parts/values";
import { Ranking } from "../parts/ranking";
import { may } from "../session";

const EVERY = 20; // seconds

export function Overview() {
  return (
    <>
      <h1>Overview</h1>
      <div class="cards">
        {may("agent:read") && <Agents />}
        {may("cluster:read") && <Nodes />}
      </div>
    </>
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
