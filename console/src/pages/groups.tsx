// Groups of agents: what they share, and who is in them.
import { go, link } from "../address";
import { act, at, get, text } from "../api";
import { useState } from "preact/hooks";
import { useLoad } from "../load";
import type { Shown } from "../pages";
import { Action } from "../parts/action";
import { Loaded } from "../parts/answer";
import { Collection, type Column } from "../parts/collection";
import { Editor } from "../parts/editor";
import { Tabs } from "../parts/tabs";
import { number } from "../parts/values";
import { may } from "../session";
import { AGENT_COLUMNS, AGENT_QUERY_FIELDS } from "./agents";

const COLUMNS: Column[] = [
  { name: "name", title: "Name", show: ({ name }) => <a href={link(["groups", name])}>{name}</a> },
  { name: "count", title: "Agents", show: ({ count }) => number(count) },
  { name: "mergedSum", title: "Digest of its files", wide: true, show: ({ mergedSum }) => <code>{mergedSum}</code> },
];
const TABS: [string, string][] = [["", "Agents"], ["configuration", "agent.conf"], ["files", "Files"]];

export function Groups({ path }: Shown) {
  const [turn, setTurn] = useState(0);
  const [name, view = "", file] = path;
  if (!name) {
    return (
      <>
        <h1>Groups</h1>
        <Collection path="/groups" caption="Groups" columns={COLUMNS} fields={["name", "count"]} sort="name" turn={turn}>
          <Action label="New group …" title="Make a group" needs="group:create" then={() => setTurn(turn + 1)}
            run={(form) => act("POST", "/groups", { body: { group_id: String(form.get("name")) } })}>
            <label><span>Name</span><input name="name" required pattern="[\w\-.]+" /></label>
          </Action>
        </Collection>
      </>
    );
  }
  return (
    <>
      <p class="crumbs"><a href={link(["groups"])}>Groups</a></p>
      <h1>{name}</h1>
      <Tabs path={["groups", name]} tabs={TABS} current={view} />
      {view === "configuration" ? <Configuration group={name} /> : view === "files" ? <Files group={name} file={file} /> : <Members group={name} />}
    </>
  );
}

function Members({ group }: { group: string }) {
  const [turn, setTurn] = useState(0);
  const again = () => setTurn(turn + 1);
  const remove: Column = {
    name: "remove", title: "Action", sort: false,
    show: ({ id, name }) => (
      <Action label="Remove" title={`Take ${name} out of ${group}?`} needs="group:modify_assignments" then={again}
        run={() => act("DELETE", at`/agents/${id}/group/${group}`)} />
    ),
  };
  const columns = AGENT_COLUMNS.filter(({ name }) => name !== "group");
  return (
    <Collection path={at`/groups/${group}/agents`} caption={`Agents of ${group}`} fields={AGENT_QUERY_FIELDS} sort="id" turn={turn}
      columns={may("group:modify_assignments") ? [...columns, remove] : columns} empty="No agent is in this group.">
      <Action label="Add an agent …" title={`Put an agent into ${group}`} needs="group:modify_assignments" then={again}
        run={(form) => act("PUT", at`/agents/${String(form.get("id"))}/group/${group}`)}>
        <p>It gets the files of the group; they count more than those of its other groups.</p>
        <label><span>Id of the agent</span><input name="id" required pattern="\d{3,}" inputMode="numeric" /></label>
      </Action>
      {group !== "default" && (
        <Action label="Delete the group" title={`Delete ${group} with its files?`} danger needs="group:delete" then={() => go(["groups"])}
          run={() => act("DELETE", "/groups", { query: { groups_list: group } })} />
      )}
    </Collection>
  );
}

function Configuration({ group }: { group: string }) {
  const load = useLoad((signal) => text(at`/groups/${group}/files/agent.conf`, { raw: true }, signal), [group]);
  const save = async (body: string) => {
    await act("PUT", at`/groups/${group}/configuration`, { body, type: "application/xml" });
    return "Verified and stored. The agents of the group get it with their next keepalive.";
  };
  return <Loaded load={load}>{(value) => <Editor label={`agent.conf of ${group}`} value={value} save={may("group:update_config") ? save : undefined} />}</Loaded>;
}

function Files({ group, file }: { group: string; file?: string }) {
  const load = useLoad((signal) => get(at`/groups/${group}/files`, { limit: 500 }, signal), [group]);
  return (
    <div class="split">
      <Loaded load={load}>
        {({ data }) => (
          <ul class="counts column card">
            {data.affected_items.map(({ filename, hash }) => (
              <li key={filename}>
                <a href={link(["groups", group, "files", filename])} aria-current={filename === file ? "true" : undefined}>{filename}</a>{" "}
                <code class="quiet">{hash.slice(0, 12)}</code>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {file && <Content key={file} group={group} file={file} />}
    </div>
  );
}

function Content({ group, file }: { group: string; file: string }) {
  const load = useLoad((signal) => text(at`/groups/${group}/files/${file}`, { raw: true }, signal), [group, file]);
  return <Loaded load={load}>{(value) => <pre tabIndex={0} aria-label={file}>{value}</pre>}</Loaded>;
}
