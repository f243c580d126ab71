// Draws lines over time on a canvas with uPlot: a chunk of its own, loaded with the first chart. Colours come
// from the classes of the page, so that they follow the theme. Sizes are set by CSSOM, never by attributes.

import uPlot from 'uplot';
import { textWidth } from './text-width.ts';

export interface Line {
  readonly label: string;
  /** a state of css/tokens.css: done, dead, quiet … */
  readonly colour: string;
  /** null: not recorded */
  readonly values: readonly (number | null)[];
  readonly isFilled?: boolean;
}

export interface Drawing {
  /** epoch ms of each value */
  readonly at: readonly number[];
  readonly lines: readonly Line[];
  /** the last step is not over: it is dashed */
  readonly isUnfinished: boolean;
  readonly isLog: boolean;
  readonly height: number;
  readonly valueText: (value: number) => string;
  readonly timeText: (epochMs: number) => string;
  /** index of the values under the pointer; null: none */
  readonly onHover: (index: number | null) => void;
}

export interface Drawn {
  resize(width: number): void;
  end(): void;
}

/** Computed colours; --x holds a light-dark() pair, which a canvas cannot read. */
function inkOf(host: HTMLElement): (name: string) => string {
  const probe = document.createElement('span');
  host.append(probe);
  const style = getComputedStyle(probe);
  return (name) => {
    probe.style.color = `var(--${name})`;
    return style.color;
  };
}

/** Draws into an empty element. */
export function draw(host: HTMLElement, drawing: Drawing): Drawn {
  const { at, lines, isUnfinished, isLog, height, valueText, timeText, onHover } = drawing;
  const ink = inkOf(host);
  const font = `11px ${getComputedStyle(host).fontFamily}`;
  const last = at.length - 1;
  // A log axis has no place for 0.
  const shown = (value: number | null) => (value === null ? null : isLog ? Math.max(1, value) : value);
  const columns = lines.flatMap(({ values }) => {
    const all = values.map(shown);
    if (!isUnfinished) return [all];
    return [
      all.map((value, n) => (n === last ? null : value)),
      all.map((value, n) => (n < last - 1 ? null : value)),
    ];
  });
  const series = lines.flatMap(({ label, colour, isFilled }): uPlot.Series[] => {
    const stroke = ink(`${colour}-mark`);
    const line = { label, stroke, width: 1.75, points: { show: true, size: 5, fill: stroke, filter: lone } };
    const whole = { ...line, ...(isFilled ? { fill: ink(`${colour}-soft`) } : {}) };
    return isUnfinished ? [whole, { ...line, dash: [3, 3] }] : [whole];
  });
  const axis = { stroke: ink('text-3'), font, ticks: { show: false }, border: { show: false } };
  const plot = new uPlot(
    {
      width: Math.max(120, host.clientWidth),
      height,
      // The last label of time is as wide beside its point.
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: { time: true }, y: isLog ? { distr: 3, range: stepsAround } : { range: fromZero } },
      axes: [
        {
          ...axis,
          grid: { show: false },
          // Below the lowest label of the other axis.
          gap: 8,
          size: 28,
          space: 76,
          values: (_, splits) => splits.map((second) => timeText(second * 1_000)),
        },
        {
          ...axis,
          grid: { stroke: ink('line'), width: 1 },
          gap: 4,
          size: (_, texts) => 10 + Math.max(18, ...(texts ?? []).map(textWidth)),
          space: 34,
          ...(isLog ? { splits: stepsBetween, filter: (_, splits) => splits } : {}),
          values: (_, splits) => splits.map((value) => (value === null ? '' : valueText(value))),
        },
      ],
      series: [{}, ...series],
      hooks: { setCursor: [({ cursor }) => onHover(cursor.idx ?? null)] },
    },
    [at.map((ms) => ms / 1_000), ...columns] as uPlot.AlignedData,
    host,
  );
  return {
    resize: (width) => plot.setSize({ width: Math.max(120, width), height }),
    end: () => {
      plot.destroy();
      host.replaceChildren();
    },
  };
}

/** Values without a neighbour, which a line does not show. */
function lone(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const is = (n: number) => values[n] !== null && values[n] !== undefined;
  return Array.from(values.keys()).filter((n) => is(n) && !is(n - 1) && !is(n + 1));
}

/** Of a logarithmic axis: lengths of time with a short name, ms. */
const steps = [
  ...[1, 10, 100, 1_000, 10_000],
  ...[60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000, 8_640_000_000],
] as const;

function stepsAround(_: uPlot, least: number | null, most: number | null): [number, number] {
  const from = steps.findLast((step) => step <= (least ?? 1)) ?? steps[0];
  return [from, steps.find((step) => step > from && step >= (most ?? 1)) ?? from * 10];
}

function fromZero(_: uPlot, __: number | null, most: number | null): [number, number] {
  return [0, Math.max(4, (most ?? 0) * 1.08)];
}

const stepsBetween = (_: uPlot, __: number, least: number, most: number): number[] =>
  steps.filter((step) => step >= least && step <= most);
