// A log line, and what the stored decoders and rules make of it. The session ends with the part.
import { useEffect, useRef, useState } from "preact/hooks";
import { at, request, type Item } from "../api";
import { useAction } from "../load";
import { may } from "../session";
import { Empty, ProblemNotice } from "./answer";
import { Facts, Level } from "./values";

const EXAMPLE = "Nov 22 10:00:00 host sshd[4711]: Failed password for root from 192.0.2.7 port 40022 ssh2";

export function LogTest() {
  const token = useRef<string | undefined>(undefined);
  const [found, setFound] = useState<Item>();
  const { busy, problem, run } = useAction();
  const end = () => {
    const old = token.current;
    token.current = undefined;
    if (old) request("DELETE", at`/logtest/sessions/${old}`).catch(() => undefined); // it ends by itself, later
  };
  useEffect(() => end, []);
  if (!may("logtest:run")) return <Empty>You may not run log tests (logtest:run).</Empty>;
  const test = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const again = form.get("again") !== null;
    if (!again) end(); // a new session has the files as they are stored now
    run(async () => {
      const body = { event: String(form.get("event")), log_format: String(form.get("format")), location: "console", ...(token.current && { token: token.current }) };
      const { data } = await request<Item>("PUT", "/logtest", { body });
      token.current = data.token;
      setFound(data);
    });
  };
  return (
    <section class="card" aria-labelledby="logtest">
      <h2 id="logtest">Log test</h2>
      <form class="stack" onSubmit={test}>
        <label><span>Log line</span><textarea class="short" name="event" required spellcheck={false} placeholder={EXAMPLE} /></label>
        <div class="toolbar">
          <label><span>Format</span><select name="format">{["syslog", "json", "eventchannel", "multi-line:1", "audit"].map((one) => <option key={one}>{one}</option>)}</select></label>
          <label class="check"><input type="checkbox" name="again" /><span>One more of the same series (for rules that count)</span></label>
          <button class="primary" disabled={busy}>Test</button>
        </div>
      </form>
      <ProblemNotice problem={problem} />
      <div aria-live="polite">{found && <Result of={found} />}</div>
    </section>
  );
}

function Result({ of }: { of: Item }) {
  const { rule, decoder, predecoder, data, full_log, ...rest } = of.output;
  return (
    <>
      <p>
        {rule ? <><Level of={rule.level} /> <b>{rule.id}</b> {rule.description}</> : "No rule matches."}{" "}
        <span class="quiet">{of.alert ? "An alert." : "No alert."}</span>
      </p>
      <Facts of={{ decoder: decoder ?? {}, predecoder: predecoder ?? {}, data: data ?? {} }} />
      <details><summary>Everything</summary><pre>{JSON.stringify({ ...rest, rule, full_log }, null, 2)}</pre></details>
    </>
  );
}
