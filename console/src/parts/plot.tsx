// Counts over time as stacked bars. A stretch of it can be brushed; a table says the same in words.
import uPlot from "uplot";
import { HEIGHT, axes, colour, useChart } from "./chart";

export interface Series {
  label: string;
  kind: string; // its colour: the name of one of the style sheet
  counts: number[];
}

interface Props {
  label: string;
  times: number[]; // seconds since 1970, of the begins of equal steps
  series: Series[]; // the lowest first
  onBrush?: (since: number, until: number) => void;
}

export function Plot({ label, times, series, onBrush }: Props) {
  const place = useChart([times, ...stacked(series)] as uPlot.AlignedData, (element) => options(element, times, series, onBrush));
  const sum = (one: Series) => one.counts.reduce((total, count) => total + count, 0);
  return (
    <figure class="plot">
      <div ref={place} role="img" aria-label={`${label}: ${series.map((one) => `${one.label} ${sum(one)}`).join(", ")}`} />
      <figcaption class="counts">
        {series.map((one) => <span key={one.label}><span class={`swatch ${one.kind}`} aria-hidden="true" /> {one.label}: {sum(one)}</span>)}
        {onBrush && <span class="quiet">Draw over a stretch of time to look closer.</span>}
      </figcaption>
    </figure>
  );
}

// uPlot draws one series over the other: the sums come first, so that the lowest series is drawn last.
function stacked(series: Series[]): number[][] {
  const sums: number[][] = [];
  for (const { counts } of series) {
    const below = sums[0];
    sums.unshift(counts.map((count, index) => count + (below?.[index] ?? 0)));
  }
  return sums;
}

function options(element: HTMLElement, times: number[], series: Series[], onBrush?: Props["onBrush"]): uPlot.Options {
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  const end = last + (times.length > 1 ? last - times.at(-2)! : 1); // of the last step
  const bars = uPlot.paths.bars!({ size: [0.85], align: 1 });
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: Boolean(onBrush), points: { show: false }, y: false, drag: { x: true, y: false, setScale: false } },
    scales: { x: { range: () => [first, end] }, y: { range: (_plot, _low, high) => [0, Math.max(high, 1)] } },
    axes: axes(element, first, end),
    series: [{}, ...series.map(({ kind }) => ({ fill: colour(element, `bar-${kind}`), width: 0, paths: bars, points: { show: false } })).reverse()],
    hooks: {
      setSelect: [(plot) => {
        const { left, width } = plot.select;
        if (width > 4) onBrush?.(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
      }],
    },
  };
}
