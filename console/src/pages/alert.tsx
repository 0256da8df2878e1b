// One alert: the event, its rule, its agent, and what happened around it.
import { link } from "../address";
import { at, get, type Collection, type Item } from "../api";
import { useLoad } from "../load";
import { Acknowledge, Acknowledged } from "../parts/acknowledge";
import { AlertTable, RuleLink } from "../parts/alerts";
import { Empty, Loaded, MissingNodes } from "../parts/answer";
import { Facts, Level, Time } from "../parts/values";
import { may } from "../session";

export function Alert({ id }: { id: string }) {
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
              <div class="toolbar">
                <h1><Level of={alert.rule.level} /> {alert.rule.description}</h1>
                <Acknowledge items={[alert]} then={load.again} />
                {may("silences:create") && (
                  <a href={link(["alerts", "silences", "new"], { rule_ids: alert.rule.id, agents_list: alert.agent.id })}>Silence such alerts …</a>
                )}
              </div>
              <Acknowledged of={alert} then={load.again} />
              <MissingNodes errors={dapi_errors} />
              <Details of={alert} />
              <h2>What happened around it on this agent</h2>
              {data.around?.length ? <AlertTable caption="Alerts around it" items={data.around} /> : (
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
  const { rule, agent, full_log, data, acknowledged: _, ...rest } = of;
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
