// The most frequent values of something, with bars to compare them by.
import { number } from "./values";

const SHOWN = 8;

interface Props {
  of: Record<string, number>;
  to?: (name: string) => string;
  label?: (name: string) => string;
}

export function Ranking({ of, to, label = (name) => name }: Props) {
  const ranked = Object.entries(of).sort(([, one], [, other]) => other - one).slice(0, SHOWN);
  const most = ranked[0]?.[1] ?? 0;
  return (
    <ol class="ranking">
      {ranked.map(([name, count]) => (
        <li key={name}>
          {to ? <a href={to(name)}>{label(name)}</a> : <span>{label(name)}</span>}
          <span>{number(count)}</span>
          <progress max={most} value={count} aria-hidden="true" />
        </li>
      ))}
    </ol>
  );
}
