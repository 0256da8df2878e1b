// What a user may do, and why: roles, the policies that they hold, and the rules that give them.
import { link } from "../address";
import { act, at, get, type Collection, type Item } from "../api";
import { useLoad } from "../load";
import { Action } from "../parts/action";
import { Empty, Loaded, Notice } from "../parts/answer";
import { Effect, Permissions } from "./permissions";

export const Password = () => (
  <label><span>Password: 8 to 64 characters; lower and upper case, a digit and a symbol</span>
    <input type="password" name="password" required minLength={8} maxLength={64} autocomplete="new-password" /></label>
);

async function all(kind: string, signal: AbortSignal): Promise<Item[]> {
  return (await get<Collection>(`/security/${kind}`, { limit: 500 }, signal)).data.affected_items;
}

// A user, and why the user may do what: each role with its policies, in the order in which they count.
export function User({ id }: { id: string }) {
  const load = useLoad(async (signal) => {
    const [users, roles, policies] = await Promise.all([all("users", signal), all("roles", signal), all("policies", signal)]);
    return { user: users.find((one) => `${one.id}` === id), roles, policies };
  }, [id]);
  return (
    <Loaded load={load}>
      {({ user, roles, policies }) => {
        if (!user) return <Empty>There is no such user, or you may not read this one.</Empty>;
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
              <Action label={user.allow_run_as ? "Forbid contexts" : "Allow contexts"} needs="security:edit_run_as" then={load.again}
                title={`${user.allow_run_as ? "Forbid" : "Allow"} ${user.username} to sign in with a context, whose rules give the roles?`}
                run={() => act("PUT", at`/security/users/${id}/run_as`, { query: { allow_run_as: !user.allow_run_as } })} />
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
            <Permissions key={`${user.roles} ${user.allow_run_as}`} path={at`/security/users/${id}/permissions`} name={user.username}
              contexts={user.allow_run_as} />
          </>
        );
      }}
    </Loaded>
  );
}

export function Role({ id }: { id: string }) {
  const load = useLoad(async (signal) => {
    const [roles, policies, rules] = await Promise.all([all("roles", signal), all("policies", signal), all("rules", signal)]);
    return { role: roles.find((one) => `${one.id}` === id), policies, rules };
  }, [id]);
  const path = at`/security/roles/${id}/policies`;
  const rulesPath = at`/security/roles/${id}/rules`;
  return (
    <Loaded load={load}>
      {({ role, policies, rules }) => role ? (
        <>
          <div class="toolbar">
            <h2>{role.name}</h2>
            <Choose label="Add a policy …" title={`Add a policy to ${role.name}`} items={policies.filter((one) => !role.policies.includes(one.id))}
              then={load.again} run={(policy) => act("POST", path, { query: { policy_ids: policy } })} />
            <Choose label="Add a rule …" title={`A rule that gives ${role.name} to those who sign in with a context`} then={load.again}
              items={rules.filter((one) => !role.rules.includes(one.id))} run={(rule) => act("POST", rulesPath, { query: { rule_ids: rule } })} />
          </div>
          <section class="card" aria-label="Policies">
            <Policies of={role} policies={policies} remove={(policy) => act("DELETE", path, { query: { policy_ids: policy } })} then={load.again} />
          </section>
          {role.rules.length > 0 && (
            <section class="card section" aria-label="Rules">
              <h2>Given by rules, for contexts that match</h2>
              <ul class="counts column">
                {rules.filter((one) => role.rules.includes(one.id)).map((one) => (
                  <li key={one.id}>
                    <b>{one.name}</b> <code>{JSON.stringify(one.rule)}</code>{" "}
                    <Action label="Remove" title={`Let ${one.name} no longer give ${role.name}?`} needs="security:delete" then={load.again}
                      run={() => act("DELETE", rulesPath, { query: { rule_ids: one.id } })} />
                  </li>
                ))}
              </ul>
            </section>
          )}
        </>
      ) : <Empty>There is no such role, or you may not read this one.</Empty>}
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
