// Who may do what: users have roles, roles hold policies, and rules give roles to those who sign in with a context.
import { useState } from "preact/hooks";
import { link } from "../address";
import { act, at, get, type Collection as Items, type Item, type Json } from "../api";
import { Problem } from "../http";
import { useLoad } from "../load";
import type { Shown } from "../pages";
import { Action } from "../parts/action";
import { Empty, Loaded, Notice } from "../parts/answer";
import { Collection, type Column } from "../parts/collection";
import { Tabs } from "../parts/tabs";
import { State, plural } from "../parts/values";
import { may } from "../session";

const LAST_RESERVED = 99; // items up to this id belong to the installation

const TABS: [string, string][] = [["", "Users"], ["roles", "Roles"], ["policies", "Policies"], ["rules", "Rules"], ["mine", "What I may do"]];

export function Security({ path }: Shown) {
  const [view = "", id] = path;
  const single = id && (view === "users" ? <User id={id} /> : view === "roles" ? <Role id={id} /> : null);
  return (
    <>
      <h1>Security</h1>
      <Tabs path={["security"]} tabs={TABS} current={view === "users" ? "" : view} />
      {single || (view === "mine" ? <Mine /> : may("security:read") ? <List key={view} kind={view || "users"} /> : <Empty>You may not read users, roles and policies (security:read).</Empty>)}
    </>
  );
}

interface Kind {
  columns: Column[];
  sort: string;
  ids: string; // the parameter that names items to delete
  name: (item: Item) => string;
  create: { needs: string; body: (form: FormData) => Json; fields: () => preact.JSX.Element };
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
    create: { needs: "security:create", body: (form) => ({ name: String(form.get("name")) }), fields: () => <Name /> },
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
      fields: () => (<><Name /><Text label="Policy" value={{ actions: ["agent:read"], resources: ["agent:group:web"], effect: "allow" }} /></>),
    },
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
      fields: () => (<><Name /><Text label="Expression" value={{ MATCH: { department: "operations" } }} /></>),
    },
  },
};

function List({ kind: name }: { kind: string }) {
  const [turn, setTurn] = useState(0);
  const kind = KINDS[name];
  if (!kind) return <Empty>There is no such view.</Empty>;
  const path = `/security/${name}`;
  const again = () => setTurn(turn + 1);
  const remove: Column = {
    name: "delete", title: "Action", sort: false,
    show: (item) => item.id > LAST_RESERVED && (
      <Action label="Delete" title={`Delete ${kind.name(item)}?`} danger needs="security:delete" then={again}
        run={() => act("DELETE", path, { query: { [kind.ids]: item.id } })}>
        <p>The tokens that this concerns are revoked.</p>
      </Action>
    ),
  };
  return (
    <Collection path={path} caption={name} columns={may("security:delete") ? [...kind.columns, remove] : kind.columns} sort={kind.sort} turn={turn}>
      <Action label="New …" title={`New: ${name}`} needs={kind.create.needs} then={again}
        run={(form) => act("POST", path, { body: kind.create.body(form) })}>
        {kind.create.fields()}
      </Action>
    </Collection>
  );
}

const Name = () => <label><span>Name</span><input name="name" required maxLength={64} autocomplete="off" spellcheck={false} /></label>;
const Password = () => (
  <label><span>Password: 8 to 64 characters; lower and upper case, a digit and a symbol</span>
    <input type="password" name="password" required minLength={8} maxLength={64} autocomplete="new-password" /></label>
);
const Text = ({ label, value }: { label: string; value: Json }) => (
  <label><span>{label}</span><textarea class="short" name="text" required spellcheck={false} defaultValue={JSON.stringify(value, null, 2)} /></label>
);
const Effect = ({ of }: { of: string }) => <span class={`state ${of === "allow" ? "good" : "bad"}`}>{of}</span>;

function parsed(text: FormDataEntryValue | null): Json {
  try {
    return JSON.parse(String(text));
  } catch (error) {
    throw new Problem(0, "This is not JSON", (error as Error).message);
  }
}

async function all(kind: string, signal: AbortSignal): Promise<Item[]> {
  return (await get<Items>(`/security/${kind}`, { limit: 500 }, signal)).data.affected_items;
}

// A user, and why the user may do what: each role with its policies, in the order in which they count.
function User({ id }: { id: string }) {
  const load = useLoad(async (signal) => {
    const [users, roles, policies] = await Promise.all([all("users", signal), all("roles", signal), all("policies", signal)]);
    return { user: users.find((one) => `${one.id}` === id), roles, policies };
  }, [id]);
  return (
    <Loaded load={load}>
      {({ user, roles, policies }) => {
        if (!user) return <Empty>There is no such user.</Empty>;
        const path = at`/security/users/${id}/roles`;
        const held = (user.roles as number[]).map((role) => roles.find((one) => one.id === role)).filter((one) => one !== undefined);
        return (
          <>
            <div class="toolbar">
              <h2>{user.username}</h2>
              <Choose label="Give a role …" title={`Give ${user.username} a role`} items={roles.filter((one) => !held.includes(one))} then={load.again}
                run={(role) => act("POST", path, { query: { role_ids: role } })} />
              <Action label="Set the password …" title={`A new password for ${user.username}`} needs="security:update"
                run={(form) => act("PUT", at`/security/users/${id}`, { body: { password: String(form.get("password")) } })}>
                <Password />
              </Action>
            </div>
            {!held.length && <Notice kind="warning">Without a role this user may do nothing.</Notice>}
            {held.map((role) => (
              <section key={role.id} class="card section" aria-label={role.name}>
                <div class="toolbar">
                  <h2><a href={link(["security", "roles", `${role.id}`])}>{role.name}</a></h2>
                  <Action label="Take away" title={`Take ${role.name} from ${user.username}?`} needs="security:delete" then={load.again}
                    run={() => act("DELETE", path, { query: { role_ids: role.id } })} />
                </div>
                <Policies of={role} policies={policies} />
              </section>
            ))}
          </>
        );
      }}
    </Loaded>
  );
}

function Role({ id }: { id: string }) {
  const load = useLoad(async (signal) => {
    const [roles, policies] = await Promise.all([all("roles", signal), all("policies", signal)]);
    return { role: roles.find((one) => `${one.id}` === id), policies };
  }, [id]);
  const path = at`/security/roles/${id}/policies`;
  return (
    <Loaded load={load}>
      {({ role, policies }) => role ? (
        <>
          <div class="toolbar">
            <h2>{role.name}</h2>
            <Choose label="Add a policy …" title={`Add a policy to ${role.name}`} items={policies.filter((one) => !role.policies.includes(one.id))}
              then={load.again} run={(policy) => act("POST", path, { query: { policy_ids: policy } })} />
          </div>
          <section class="card" aria-label="Policies">
            <Policies of={role} policies={policies} remove={(policy) => act("DELETE", path, { query: { policy_ids: policy } })} then={load.again} />
          </section>
        </>
      ) : <Empty>There is no such role.</Empty>}
    </Loaded>
  );
}

interface Choice {
  label: string;
  title: string;
  items: Item[];
  run: (id: string) => ReturnType<typeof act>;
  then: () => void;
}

function Choose({ label, title, items, run, then }: Choice) {
  return (
    <Action {...{ label, title, then }} needs="security:update" run={(form) => run(String(form.get("id")))}>
      <label><span>Name</span><select name="id">{items.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}</select></label>
    </Action>
  );
}

function Policies({ of, policies, remove, then }: { of: Item; policies: Item[]; remove?: (id: number) => ReturnType<typeof act>; then?: () => void }) {
  const held = (of.policies as number[]).map((id) => policies.find((one) => one.id === id)).filter((one) => one !== undefined);
  if (!held.length) return <Empty>It holds no policy.</Empty>;
  return (
    <ol class="policies">
      {held.map(({ id, name, policy }) => (
        <li key={id}>
          <Effect of={policy.effect} /> <b>{name}</b>{" "}
          {remove && <Action label="Remove" title={`Take ${name} from ${of.name}?`} needs="security:delete" run={() => remove(id)} then={then} />}
          <p>{policy.actions.join(", ")} <span class="quiet">on</span> {policy.resources.join(", ")}</p>
        </li>
      ))}
    </ol>
  );
}

function Mine() {
  const load = useLoad((signal) => get<Record<string, Record<string, string>>>("/security/users/me/policies", {}, signal), []);
  return (
    <Loaded load={load}>
      {({ data }) => Object.keys(data).length ? (
        <dl class="facts card">
          {Object.entries(data).sort(([one], [other]) => one.localeCompare(other)).map(([action, resources]) => (
            <div key={action}>
              <dt>{action}</dt>
              <dd>{Object.entries(resources).map(([resource, effect]) => <div key={resource}><Effect of={effect} /> {resource}</div>)}</dd>
            </div>
          ))}
        </dl>
      ) : <Notice kind="warning">You have no role, so you may do nothing. <State of="pending" /> Ask an administrator for one.</Notice>}
    </Loaded>
  );
}
