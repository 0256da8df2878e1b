// Silences: alerts that are stored, but sent to no receiver, for a while and for a reason.
import { useState } from "preact/hooks";
import { address, filter, go, link } from "../address";
import { ruleNames } from "../alerts";
import { act, at, get, type Collection as Items } from "../api";
import { useAction, useLoad } from "../load";
import { Action } from "../parts/action";
import { Empty, Loaded, Notice, ProblemNotice } from "../parts/answer";
import { Collection, TextFilter, type Column } from "../parts/collection";
import { Plot } from "../parts/plot";
import { Ranking } from "../parts/ranking";
import { say } from "../parts/said";
import { State, Time, number, plural } from "../parts/values";
import { may } from "../session";
import { FILTERS, LENGTHS, described, end, filtersOf, scope } from "../silences";
import { useStore } from "../store";

const PATH = "/alerts/silences";
const HIGH_LEVEL = 12;

const COLUMNS: Column[] = [
  { name: "reason", title: "Reason" },
  { name: "filters", title: "What", sort: false, show: ({ filters, agents }) => <>{described(filters)} <span class="quiet">({scope(agents)})</span></> },
  { name: "state", title: "State", show: ({ state }) => <State of={state} /> },
  { name: "since", title: "From", wide: true, show: ({ since }) => <Time at={since} /> },
  { name: "until", title: "Until", show: ({ until }) => <Time at={until} /> },
  { name: "user", title: "By", wide: true },
  { name: "alerts", title: "Alerts", sort: false, wide: true, show: ({ alerts }) => (alerts === undefined ? "–" : number(alerts)) },
];

export function Silences() {
  const [turn, setTurn] = useState(0);
  const again = () => setTurn(turn + 1);
  const actions: Column = {
    name: "actions", title: "Action", sort: false,
    show: ({ id, state, reason }) => (
      <>
        {state === "in_force" && <Action label="End" title={`End the silence "${reason}" now?`} needs="silences:update" then={again}
          run={() => act("PUT", at`/alerts/silences/${id}`, { body: { until: "now" } })} />}
        {state === "planned" && <Action label="Delete" title={`Delete the silence "${reason}"?`} danger needs="silences:delete" then={again}
          run={() => act("DELETE", at`/alerts/silences/${id}`)} />}
      </>
    ),
  };
  return (
    <>
      <p>Alerts of a silence are stored and searchable; no mail, message or response follows from them.</p>
      <Collection path={PATH} caption="Silences" columns={[...COLUMNS, actions]} sort="-until" turn={turn} every={30}
        empty="There is no silence now, and none has ended in the last seven days.">
        {may("silences:create") && <a href={link(["alerts", "silences", "new"])}>New silence …</a>}
      </Collection>
    </>
  );
}

export function NewSilence() {
  const query = filtersOf(useStore(address).filters);
  const [length, setLength] = useState(Object.keys(LENGTHS)[0]!);
  const { busy, problem, run } = useAction();
  const chosen = Object.keys(query).length > 0;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const body = { until: end(length, String(form.get("until"))), reason: String(form.get("reason")) };
    if (await run(async () => void (await act("POST", PATH, { query, body })))) {
      say("The silence is in force on all nodes.");
      go(["alerts", "silences"]);
    }
  };
  return (
    <div class="split">
      <section class="card stack" aria-labelledby="new-silence">
        <h2 id="new-silence">A new silence</h2>
        <div class="parameters" role="group" aria-label="Which alerts">
          {Object.entries(FILTERS).map(([name, label]) => (
            <TextFilter key={name} name={name} label={label} value={query[name] ?? ""} onChange={(value) => filter({ [name]: value })} />
          ))}
        </div>
        <form class="stack" onSubmit={submit}>
          <label>
            <span>Length</span>
            <select value={length} onChange={(event) => setLength(event.currentTarget.value)}>
              {Object.entries(LENGTHS).map(([value, label]) => <option key={value} value={value}>{label}</option>)}
            </select>
          </label>
          {!length && <label><span>Until</span><input type="datetime-local" name="until" required /></label>}
          <label><span>Reason, for those who look for these alerts</span><input name="reason" required maxLength={1024} autocomplete="off" /></label>
          <ProblemNotice problem={problem} />
          <div class="actions"><button class="primary" disabled={busy || !chosen}>Silence</button></div>
        </form>
      </section>
      {chosen ? <Preview key={JSON.stringify(query)} query={query} /> : <Empty>Say which alerts: at least one of the fields.</Empty>}
    </div>
  );
}

interface Count {
  value: string;
  count: number;
}

interface Covered {
  alerts: number;
  highest_level: number | null;
  days: { time: string; count: number }[];
  rules: Count[];
  agents: Count[];
}

function Preview({ query }: { query: Record<string, string> }) {
  const load = useLoad(async (signal) => {
    const { data } = await get<Items<Covered>>(`${PATH}/preview`, query, signal);
    const [found] = data.affected_items;
    return found && { ...found, names: await ruleNames(found.rules.map(({ value }) => value), signal) };
  }, [query]);
  return (
    <section class="card stack" aria-labelledby="preview">
      <h2 id="preview">What it would have covered in the last seven days</h2>
      <Loaded load={load}>
        {(found) => found ? (
          <>
            <p class="figure">{plural(found.alerts, "alert")}</p>
            {(found.highest_level ?? 0) >= HIGH_LEVEL && <Notice kind="warning" title={`Alerts of level ${found.highest_level} are among them.`} />}
            <Plot label="Alerts by day" times={found.days.map(({ time }) => Date.parse(time) / 1000)}
              series={[{ label: "alerts", kind: "info", counts: found.days.map(({ count }) => count) }]} />
            <Counts title="Rules" of={found.rules} to={(id) => link(["ruleset"], { q: `id=${id}` })} label={(id) => found.names[id] ?? id} />
            <Counts title="Agents" of={found.agents} to={(id) => link(["agents", id])} />
          </>
        ) : <Empty>You may see none of these agents.</Empty>}
      </Loaded>
    </section>
  );
}

interface CountsProps {
  title: string;
  of: Count[];
  to: (id: string) => string;
  label?: (id: string) => string;
}

function Counts({ title, of, ...rest }: CountsProps) {
  if (!of.length) return null;
  return <div><h2>{title}</h2><Ranking of={Object.fromEntries(of.map(({ value, count }) => [value, count]))} {...rest} /></div>;
}
