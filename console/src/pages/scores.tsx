import uPlot from "uplot";
import { Loaded } from "../parts/answer";
import { HEIGHT, axes, colour, useChart } from "../parts/chart";
import { useLoad } from "../load";
import { scores, type Scores } from "../scores";

const KINDS = ["info", "warning", "good", "bad"]; // colours of the first policies, and again

export function ScoresOverTime({ agent }: { agent: string }) {
  const load = useLoad((signal) => scores(agent, signal), [agent]);
  return <Loaded load={load}>{(found) => found.times.length > 1 && <Lines of={found} />}</Loaded>;
}

function Lines({ of: { times, policies } }: { of: Scores }) {
  const data = [times, ...policies.map(({ values }) => values)] as uPlot.AlignedData;
  const place = useChart(data, (element) => options(element, times, policies.length));
  const change = (values: (number | null)[]) => {
    const known = values.filter((value) => value !== null);
    return known.length > 1 ? `${known[0]} % to ${known.at(-1)} %` : `${known[0]} %`;
  };
  const said = policies.map(({ name, values }) => `${name}: ${change(values)}`);
  return (
    <section class="card section" aria-labelledby="scores">
      <h2 id="scores">Scores of the last 30 days</h2>
      <figure class="plot">
        <div ref={place} role="img" aria-label={`Scores over time. ${said.join(", ")}`} />
        <figcaption class="counts">
          {said.map((text, index) => <span key={text}><span class={`swatch ${kind(index)}`} aria-hidden="true" /> {text}</span>)}
        </figcaption>
      </figure>
    </section>
  );
}

const kind = (index: number) => KINDS[index % KINDS.length]!;

function options(element: HTMLElement, times: number[], count: number): uPlot.Options {
  const [first, last] = [times[0]!, times.at(-1)!];
  const line = (_: unknown, index: number): uPlot.Series => {
    const stroke = colour(element, `bar-${kind(index)}`);
    return { stroke, width: 2, spanGaps: true, points: { show: true, size: 5, fill: stroke }, paths: uPlot.paths.stepped!({ align: 1 }) };
  };
  return {
    width: element.clientWidth, height: HEIGHT, legend: { show: false }, cursor: { show: false },
    scales: { x: { range: () => [first, Math.max(last, first + 1)] }, y: { range: () => [0, 100] } },
    axes: axes(element, first, last),
    series: [{}, ...Array.from({ length: count }, line)],
  };
}
