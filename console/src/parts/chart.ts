// What all plots have in common: uPlot in an element, as wide as the page, in the colours of the style sheet.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

export const HEIGHT = 140;
const DAY_SECONDS = 86_400;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const date = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

// An element that shows `data` drawn as `options` say; drawn again when the data change.
export function useChart(data: uPlot.AlignedData, options: (element: HTMLElement) => uPlot.Options) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (!element || !data[0].length) return;
    const plot = new uPlot(options(element), data, element);
    const sized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      plot.destroy();
    };
  }, [JSON.stringify(data)]);
  return place;
}

export const colour = (element: HTMLElement, name: string) => getComputedStyle(element).getPropertyValue(`--${name}`).trim();

// The axes of counts from `first` to `end`, in seconds since 1970.
export function axes(element: HTMLElement, first: number, end: number): uPlot.Axis[] {
  const format = end - first > 2 * DAY_SECONDS ? date : clock;
  const axis = { stroke: colour(element, "quiet"), grid: { stroke: colour(element, "line"), width: 1 }, ticks: { show: false } };
  return [{ ...axis, size: 28, values: (_plot, splits) => splits.map((at) => format.format(at * 1000)) }, { ...axis, size: 44 }];
}
