// That alerts were seen and are dealt with: by whom, and why.
import { act, type Item } from "../api";
import { Action } from "./action";
import { Notice } from "./answer";
import { Time, plural } from "./values";

const PATH = "/alerts/acknowledgements";
const NEEDS = "alerts:acknowledge";

export function Acknowledge({ items, then }: { items: Item[]; then: () => void }) {
  const ids = items.filter(({ acknowledged }) => !acknowledged).map(({ id }) => id);
  if (!ids.length) return null;
  return (
    <Action label={items.length > 1 ? "Acknowledge all shown …" : "Acknowledge …"} title={`Acknowledge ${plural(ids.length, "alert")}`} needs={NEEDS} then={then}
      run={(form) => act("PUT", PATH, { body: { ids, comment: String(form.get("comment")) } })}>
      <p>Everybody who sees {ids.length > 1 ? "them" : "it"} sees that you have, and what you write here.</p>
      <label><span>Comment</span><input name="comment" maxLength={1024} autocomplete="off" /></label>
    </Action>
  );
}

export function Acknowledged({ of, then }: { of: Item; then: () => void }) {
  if (!of.acknowledged) return null;
  const { user, time, comment } = of.acknowledged;
  return (
    <Notice kind="good" title={`Acknowledged by ${user}`}>
      <p><Time at={time} /> {comment}</p>
      <Action label="Take back" title="Take the acknowledgement back?" needs={NEEDS} then={then}
        run={() => act("DELETE", PATH, { query: { alert_ids: of.id } })} />
    </Notice>
  );
}
