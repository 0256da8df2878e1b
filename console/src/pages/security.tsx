// Who may do what: users have roles, roles hold policies, and rules give roles to those who sign in with a context.
import { useState } from "preact/hooks";
import { link } from "../address";
import { act, type Item, type Json } from "../api";
import { Problem } from "../http";
import type { Shown } from "../pages";
import { Action } from "../parts/action";
import { Empty } from "../parts/answer";
import { Collection, type Column } from "../parts/collection";
import { Tabs } from "../parts/tabs";
import { plural } from "../parts/values";
import { may } from "../session";
import { Effect, Permissions } from "./permissions";
import { Password, Role, User } from "./roles";

const LAST_RESERVED = 99; // items up to this id belong to the installation

const TABS: [string, string][] = [["", "Users"], ["roles", "Roles"], ["policies", "Policies"], ["rules", "Rules"], ["mine", "What I may do"]];

export function Security({ path }: Shown) {
  const [view = "", id] = path;
  const single = id && (view === "users" ? <User id={id} /> : view === "roles" ? <Role id={id} /> : null);
  return (
    <>
      <h1>Security</h1>
      <Tabs path={["security"]} tabs={TABS} current={view === "users" ? "" : view} />
      {view === "mine" ? <Permissions path="/security/users/me/permissions" name="I" />
        : may("security:read") ? single || <List key={view} kind={view || "users"} />
        : <Empty>You may not read users, roles and policies (security:read).</Empty>}
    </>
  );
}

interface Kind {
  columns: Column[];
  sort: string;
  ids: string; // the parameter that names items to delete
  name: (item: Item) => string;
  create: { needs: string; body: (form: FormData) => Json; fields: (item?: Item) => preact.JSX.Element };
  changes?: boolean; // with the fields of its creation
}

const KINDS: Record<string, Kind> = {
  users: {
    sort: "username", ids: "user_ids", name: ({ username }) => username,
    columns: [
      { name: "id", title: "Id" }, { name: "username", title: "Name", show: ({ id, username }) => <a href={link(["security", "users", `${id}`])}>{username}</a> },
      { name: "roles", title: "Roles", sort: false, show: ({ roles }) => plural(roles.length, "role") },
      { name: "allow_run_as", title: "May sign in with a context", wide: true, show: ({ allow_run_as }) => (allow_run_as ? "yes" : "no") },
    ],
    create: {
      needs: "security:create_user", body: (form) => ({ username: String(form.get("name")), password: String(form.get("password")) }),
      fields: () => (<><Name /><Password /></>),
    },
  },
  roles: {
    sort: "name", ids: "role_ids", name: ({ name }) => name,
    columns: [
      { name: "id", title: "Id" }, { name: "name", title: "Name", show: ({ id, name }) => <a href={link(["security", "roles", `${id}`])}>{name}</a> },
      { name: "policies", title: "Policies", sort: false, show: ({ policies }) => plural(policies.length, "policy").replace("policys", "policies") },
      { name: "users", title: "Users", sort: false, show: ({ users }) => plural(users.length, "user") },
    ],
    create: { needs: "security:create", body: (form) => ({ name: String(form.get("name")) }), fields: (item) => <Name of={item} /> },
    changes: true,
  },
  policies: {
    sort: "name", ids: "policy_ids", name: ({ name }) => name,
    columns: [
      { name: "id", title: "Id" }, { name: "name", title: "Name" },
      { name: "policy.effect", title: "Effect", show: ({ policy }) => <Effect of={policy.effect} /> },
      { name: "policy.actions", title: "Actions", sort: false }, { name: "policy.resources", title: "Resources", sort: false, wide: true },
    ],
    create: {
      needs: "security:create", body: (form) => ({ name: String(form.get("name")), policy: parsed(form.get("text")) }),
      fields: (item) => (<><Name of={item} /><Text label="Policy" value={item?.policy ?? { actions: ["agent:read"], resources: ["agent:group:web"], effect: "allow" }} /></>),
    },
    changes: true,
  },
  rules: {
    sort: "name", ids: "rule_ids", name: ({ name }) => name,
    columns: [
      { name: "id", title: "Id" }, { name: "name", title: "Name" },
      { name: "rule", title: "Expression", sort: false, show: ({ rule }) => <code>{JSON.stringify(rule)}</code> },
      { name: "roles", title: "Roles", sort: false, show: ({ roles }) => plural(roles.length, "role") },
    ],
    create: {
      needs: "security:create", body: (form) => ({ name: String(form.get("name")), rule: parsed(form.get("text")) }),
      fields: (item) => (<><Name of={item} /><Text label="Expression" value={item?.rule ?? { MATCH: { department: "operations" } }} /></>),
    },
    changes: true,
  },
};

function List({ kind: name }: { kind: string }) {
  const [turn, setTurn] = useState(0);
  const kind = KINDS[name];
  if (!kind) return <Empty>There is no such view.</Empty>;
  const path = `/security/${name}`;
  const again = () => setTurn(turn + 1);
  const actions: Column = {
    name: "actions", title: "Action", sort: false,
    show: (item) => item.id > LAST_RESERVED && (
      <>
        {kind.changes && (
          <Action label="Change …" title={`Change ${kind.name(item)}`} needs="security:update" then={again}
            run={(form) => act("PUT", `${path}/${item.id}`, { body: kind.create.body(form) })}>
            {kind.create.fields(item)}
            <Revokes />
          </Action>
        )}
        <Action label="Delete" title={`Delete ${kind.name(item)}?`} danger needs="security:delete" then={again}
          run={() => act("DELETE", path, { query: { [kind.ids]: item.id } })}>
          <Revokes />
        </Action>
      </>
    ),
  };
  const changeable = may("security:delete") || (kind.changes && may("security:update"));
  return (
    <Collection path={path} caption={name} columns={changeable ? [...kind.columns, actions] : kind.columns} sort={kind.sort} turn={turn}>
      <Action label="New …" title={`New: ${name}`} needs={kind.create.needs} then={again}
        run={(form) => act("POST", path, { body: kind.create.body(form) })}>
        {kind.create.fields()}
      </Action>
    </Collection>
  );
}

const Name = ({ of }: { of?: Item }) => (
  <label><span>Name</span><input name="name" required maxLength={64} autocomplete="off" spellcheck={false} defaultValue={of?.name} /></label>
);
const Text = ({ label, value }: { label: string; value: Json }) => (
  <label><span>{label}</span><textarea class="short" name="text" required spellcheck={false} defaultValue={JSON.stringify(value, null, 2)} /></label>
);

const Revokes = () => <p>The tokens that this concerns are revoked.</p>;

function parsed(text: FormDataEntryValue | null): Json {
  try {
    return JSON.parse(String(text));
  } catch (error) {
    throw new Problem(0, "This is not JSON", (error as Error).message);
  }
}
