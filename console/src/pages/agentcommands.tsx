// What may be done with an agent: each command asks first, and says what came of it.
import { go } from "../address";
import { act, at } from "../api";
import { Action } from "../parts/action";
import { may } from "../session";

const ACTIONS = [
  "syscheck:run", "agent:reconnect", "agent:restart", "agent:upgrade", "active-response:command", "agent:modify_group", "agent:delete",
];

export function Commands({ id, name, then }: { id: string; name: string; then: () => void }) {
  if (!ACTIONS.some(may)) return null;
  const one = { agents_list: id };
  return (
    <details class="menu" onKeyDown={(event) => { if (event.key === "Escape") event.currentTarget.open = false; }}>
      <summary>Commands</summary>
      <div>
        <Action label="Scan files" title={`Have ${name} scan for changed files now?`} needs="syscheck:run" run={() => act("PUT", "/syscheck", { query: one })} />
        <Action label="Connect again" title={`Have ${name} connect again, perhaps to another node?`} needs="agent:reconnect"
          run={() => act("PUT", "/agents/reconnect", { query: one })} />
        <Action label="Restart" title={`Restart the agent ${name}?`} needs="agent:restart" run={() => act("PUT", at`/agents/${id}/restart`)} />
        <Action label="Add to a group …" title={`Put ${name} into a group`} needs="agent:modify_group" then={then}
          run={(form) => act("PUT", at`/agents/${id}/group/${String(form.get("group"))}`)}>
          <label><span>Group</span><input name="group" required autocomplete="off" spellcheck={false} /></label>
        </Action>
        <Action label="Upgrade …" title={`Upgrade the agent ${name}`} needs="agent:upgrade"
          run={(form) => act("PUT", "/agents/upgrade", { query: { ...one, upgrade_version: String(form.get("version")) } })}>
          <label><span>Version, such as v4.8.2; without one, that of the manager</span><input name="version" pattern="v?[0-9.]+" autocomplete="off" /></label>
        </Action>
        <Action label="Run a response …" title={`Run an active response on ${name}`} danger needs="active-response:command"
          run={(form) => act("PUT", "/active-response", { query: one, body: response(form) })}>
          <label><span>Command, as the configuration names it; or ! and a program of the agent</span><input name="command" required autocomplete="off" spellcheck={false} /></label>
          <label><span>Address that it is about, if any</span><input name="srcip" autocomplete="off" spellcheck={false} /></label>
        </Action>
        <Action label="Remove …" title={`Remove ${name}? It cannot connect any more, and its id is not used again.`} danger needs="agent:delete"
          then={() => go(["agents"])} run={() => act("DELETE", "/agents", { query: { ...one, status: "all", older_than: "0s" } })} />
      </div>
    </details>
  );
}

function response(form: FormData) {
  const srcip = String(form.get("srcip"));
  return { command: String(form.get("command")), ...(srcip && { alert: { data: { srcip } } }) };
}
