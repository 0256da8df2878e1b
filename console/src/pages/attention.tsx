import { attention } from "../attention";
import { useLoad } from "../load";
import { Loaded } from "../parts/answer";
import { Time } from "../parts/values";

const EVERY = 30; // seconds
const SHOWN = 10;

export function Attention() {
  const load = useLoad(attention, [], EVERY);
  return (
    <section class="card across" aria-labelledby="attention">
      <h2 id="attention">What needs attention now</h2>
      <Loaded load={load}>
        {(found) => found.length ? (
          <ul class="attention">
            {found.slice(0, SHOWN).map(({ what, detail, at, kind, href }) => (
              <li key={what + href} class={kind}>
                <a href={href}>{what}</a> {at && <Time at={at} />}
                {detail && <p class="quiet">{detail}</p>}
              </li>
            ))}
            {found.length > SHOWN && <li class="quiet">… and {found.length - SHOWN} more</li>}
          </ul>
        ) : <p><span class="state good">All is well.</span> <span class="quiet">Nothing that you may see needs you.</span></p>}
      </Loaded>
    </section>
  );
}
