// What the roles of a user add up to, and why: each permission with the policy that decides, its role, and the rules that
// give this role.
import { address, filter, link } from "../address";
import { Collection, TextFilter, type Column, type Item } from "../parts/collection";
import { may, session } from "../session";
import { useStore } from "../store";

export const Effect = ({ of }: { of: string }) => <span class={`state ${of === "allow" ? "good" : "bad"}`}>{of}</span>;

const Place = ({ of }: { of: Item }) => <span class="quiet">no. {of.position + 1}</span>;

// To those who may not read it, a name only.
const Named = ({ of, href }: { of: Item; href: string }) => (may("security:read") ? <a href={href}>{of.name}</a> : <>{of.name}</>);

const COLUMNS: Column[] = [
  { name: "action", title: "Action" },
  { name: "resource", title: "Resource" },
  { name: "effect", title: "Effect", show: ({ effect }) => <Effect of={effect} /> },
  { name: "policy", title: "As the policy says", sort: false, show: ({ policy }) => (
    <><Named of={policy} href={link(["security", "policies"], { search: policy.name })} /> <Place of={policy} /></>
  ) },
  { name: "role", title: "Of the role", sort: false, show: ({ role }) => <><Named of={role} href={link(["security", "roles", `${role.id}`])} /> <Place of={role} /></> },
];
const RULES: Column = {
  name: "rules", title: "Given by the rules", sort: false,
  show: ({ rules }) => rules.map((rule: Item) => <div key={rule.id}><Named of={rule} href={link(["security", "rules"], { search: rule.name })} /></div>),
};
const FIELDS = ["action", "resource", "effect", "role.name", "policy.name"];

interface Props {
  path: string;
  name: string; // in headings: "I", or the name of a user
  contexts?: boolean; // whether roles may be given by rules
}

export function Permissions({ path, name, contexts }: Props) {
  const context = useStore(address).filters.get("context") ?? "";
  const rest = session.value?.mode === "black" ? "allowed" : "denied";
  return (
    <section class="section" aria-labelledby="permissions">
      <h2 id="permissions">What {name} may do</h2>
      <p class="quiet">
        What is not listed is {rest}. Roles count in their order, and so do the policies of a role: a later one overrides what
        earlier ones say of the same resource, or of all that its * covers. The one that decides is named.
      </p>
      <Collection path={path} caption="permissions" columns={context ? [...COLUMNS, RULES] : COLUMNS} fields={FIELDS}
        query={{ context }} empty={`Nothing is allowed or denied by a role: everything is ${rest}.`}>
        {(contexts || context) && (
          <TextFilter name="context" label="Signed in with the context (JSON)" value={context} hint='{"department": "operations"}'
            onChange={(text) => filter({ context: text, offset: undefined })} />
        )}
      </Collection>
    </section>
  );
}
