// A card with lines over time: the chart, its legend with the values under the pointer, and the same numbers
// as a table. The colours of lines come from classes, so that they follow the theme; one unit is one pixel.
// The logarithmic axis is one of lengths of time, ms.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { axisClock, clock } from '../format.ts';
import { Button, Card, type Colour, Empty } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';
import { textWidth, useWidth } from './measure.ts';
import { runsOf, startOf } from './spark.tsx';

/** Rows of a table: a screen scrolls through them. */
const rowsMax = 240;

interface PlotProps extends Omit<LinesProps, 'at' | 'hover' | 'onHover'> {
  readonly note: string;
  readonly width: 4 | 5 | 6 | 7 | 8;
  /** beside the switch between chart and table */
  readonly end?: ComponentChildren;
  /** epoch ms; null: not loaded yet */
  readonly at: readonly number[] | null;
  /** instead of a chart without any value */
  readonly empty: string;
}

function fromFirst(times: PlotProps['at'], lines: PlotProps['lines']): Pick<PlotProps, 'at' | 'lines'> {
  const first = times?.findIndex((_, n) => lines.some(({ values }) => typeof values[n] === 'number')) ?? 0;
  const from = startOf(first, times?.length ?? 0);
  return {
    at: times?.slice(from) ?? null,
    lines: lines.map((line) => ({ ...line, values: line.values.slice(from) })),
  };
}

export function Plot({ note, width, end, empty, ...chart }: PlotProps) {
  const { title, valueText } = chart;
  const { at, lines } = fromFirst(chart.at, chart.lines);
  const [isTable, setTable] = useState(false);
  const [hover, setHover] = useState<number | null>(null);
  const isEmpty = at !== null && !lines.some(({ values }) => values.some((value) => value !== null));
  const time = hover === null ? undefined : at?.[hover];
  return (
    <Card
      width={width}
      fill
      title={title}
      note={time === undefined ? note : clock(time)}
      end={
        <>
          {end}
          {isEmpty || at === null ? null : (
            <Button look="plain s" onClick={() => setTable(!isTable)}>
              {t(isTable ? 'view_chart' : 'view_table')}
            </Button>
          )}
        </>
      }
    >
      {at === null ? (
        <div class="plot" />
      ) : isEmpty ? (
        <Empty>{empty}</Empty>
      ) : isTable ? (
        <Table title={title} at={at} lines={lines} valueText={valueText} />
      ) : (
        <div class="body">
          <Lines {...chart} at={at} lines={lines} hover={hover} onHover={setHover} />
          <p class="legend">
            {lines.map(({ label, colour, values }) => {
              const value = hover === null ? null : (values[hover] ?? null);
              return (
                <span key={label}>
                  <i class={`line fill-${colour}`} />
                  {label}
                  {hover === null ? null : <b class="num">{value === null ? '–' : valueText(value)}</b>}
                </span>
              );
            })}
          </p>
        </div>
      )}
    </Card>
  );
}

function Table({
  title,
  at,
  lines,
  valueText,
}: Pick<PlotProps, 'title' | 'lines' | 'valueText'> & { at: readonly number[] }) {
  const newest = Array.from(at.keys()).reverse().slice(0, rowsMax);
  return (
    <section class="plot-table" tabIndex={0} aria-label={title}>
      <table>
        <thead>
          <tr>
            <th>{t('time')}</th>
            {lines.map(({ label }) => (
              <th class="right" key={label}>
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {newest.map((n) => (
            <tr key={at[n]}>
              <td class="num">
                <Time at={at[n] ?? 0} />
              </td>
              {lines.map(({ label, values }) => {
                const value = values[n] ?? null;
                return (
                  <td class={value === null ? 'right faint' : 'right'} key={label}>
                    {value === null ? '–' : valueText(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface Line {
  readonly label: string;
  readonly colour: Colour;
  /** null: not recorded */
  readonly values: readonly (number | null)[];
  readonly isFilled?: boolean;
}

interface LinesProps {
  readonly title: string;
  /** epoch ms of each value */
  readonly at: readonly number[];
  readonly lines: readonly Line[];
  /** the last step is not over: it is dashed */
  readonly isUnfinished: boolean;
  readonly isLog?: boolean;
  readonly valueText: (value: number) => string;
  /** index of the values under the pointer; null: none */
  readonly hover: number | null;
  readonly onHover: (index: number | null) => void;
}

const height = 220;
const [top, bottom, right] = [10, 26, 18];
const base = height - bottom;
/** Pixels between two labels. */
const [timeRoom, valueRoom] = [76, 34];

const [minute, hour, day] = [60_000, 3_600_000, 86_400_000];
const timeSteps = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * minute),
  ...[1, 2, 3, 6, 12].map((n) => n * hour),
  ...[1, 2, 5, 10, 30].map((n) => n * day),
];
/** Lengths of time with a short name. */
const logSteps = [
  ...[1, 10, 100, 1_000, 10_000, minute, 10 * minute],
  ...[hour, 10 * hour, day, 10 * day, 100 * day],
];

function Lines(props: LinesProps) {
  const { ref, width } = useWidth();
  return (
    <div class="plot" ref={ref}>
      {width === 0 ? null : <Drawing {...props} width={width} />}
    </div>
  );
}

function Drawing(props: LinesProps & { readonly width: number }) {
  const { title, at, lines, isUnfinished, isLog = false, valueText, hover, onHover, width } = props;
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  const axis = isLog ? logAxis(known) : linearAxis(known);
  const left = 10 + Math.max(18, ...axis.steps.map((step) => textWidth(valueText(step))));
  const [first = 0, end = 0] = [at[0], at.at(-1)];
  const x = (n: number) =>
    left + (((at[n] ?? end) - first) / Math.max(1, end - first)) * (width - left - right);
  const y = (value: number) => base - axis.share(value) * (base - top);
  const last = at.length - 1;
  const nearest = (event: PointerEvent): number => {
    const px = event.clientX - (event.currentTarget as SVGElement).getBoundingClientRect().left;
    return at.reduce((best, _, n) => (Math.abs(x(n) - px) < Math.abs(x(best) - px) ? n : best), 0);
  };
  return (
    <svg
      class="chart"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={title}
      onPointerMove={(event) => onHover(nearest(event))}
      onPointerLeave={() => onHover(null)}
    >
      {axis.steps.map((step) => (
        <g key={step}>
          <line class="grid" x1={left} x2={width - right} y1={y(step)} y2={y(step)} />
          <text x={left - 6} y={y(step) + 4} text-anchor="end">
            {valueText(step)}
          </text>
        </g>
      ))}
      {timesOf(at, width - left - right).map((ms) => (
        <text
          key={ms}
          x={left + ((ms - first) / Math.max(1, end - first)) * (width - left - right)}
          y={height - 6}
          text-anchor="middle"
        >
          {axisClock(ms, end - first > 26 * hour)}
        </text>
      ))}
      {lines.map(({ label, colour, values, isFilled = false }) => {
        const path = { colour, isFilled, x, y };
        if (!isUnfinished) return <Path key={label} {...path} values={values} />;
        return (
          <g key={label}>
            <Path {...path} values={values.map((value, n) => (n === last ? null : value))} />
            <Path
              {...path}
              isFilled={false}
              isDashed
              values={values.map((one, n) => (n < last - 1 ? null : one))}
            />
          </g>
        );
      })}
      {hover === null ? null : (
        <>
          <line class="axis" x1={x(hover)} x2={x(hover)} y1={top} y2={base} />
          {lines.map(({ label, colour, values }) => {
            const value = values[hover] ?? null;
            return value === null ? null : (
              <circle key={label} class={`fill-${colour}`} cx={x(hover)} cy={y(value)} r="3.5" />
            );
          })}
        </>
      )}
    </svg>
  );
}

/** Recorded steps side by side are a line; one without a neighbour is a point. */
function Path({
  colour,
  values,
  isFilled,
  isDashed = false,
  x,
  y,
}: Pick<Line, 'colour' | 'values'> & {
  readonly isFilled: boolean;
  readonly isDashed?: boolean;
  readonly x: (n: number) => number;
  readonly y: (value: number) => number;
}) {
  return runsOf(values).map((run) => {
    const [[first, value] = [0, 0]] = run;
    if (run.length === 1)
      return isDashed && first < values.length - 1 ? null : (
        <circle key={first} class={`fill-${colour}`} cx={x(first)} cy={y(value)} r="2.5" />
      );
    const points = run.map(([n, one]) => `${x(n).toFixed(1)},${y(one).toFixed(1)}`).join(' ');
    const end = run.at(-1)?.[0] ?? 0;
    return (
      <g key={first}>
        {isFilled ? (
          <polygon class={`soft-${colour}`} points={`${x(first)},${base} ${points} ${x(end)},${base}`} />
        ) : null}
        <polyline class={`l stroke-${colour}${isDashed ? ' dash' : ''}`} points={points} />
      </g>
    );
  });
}

interface Axis {
  readonly steps: readonly number[];
  /** 0 at the lowest step, 1 at the top */
  readonly share: (value: number) => number;
}

function linearAxis(values: readonly number[]): Axis {
  const most = Math.max(4, Math.max(0, ...values) * 1.08);
  const least = (most * valueRoom) / (base - top);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(1, power * ([1, 2, 5].find((n) => n * power >= least) ?? 10));
  const steps = Array.from({ length: Math.floor(most / step) + 1 }, (_, n) => n * step);
  return { steps, share: (value) => value / most };
}

function logAxis(values: readonly number[]): Axis {
  // It has no place for 0.
  const [low, high] = [Math.max(1, Math.min(...values)), Math.max(1, ...values)];
  const from = Math.min(
    logSteps.findLastIndex((step) => step <= low),
    logSteps.length - 2,
  );
  const to = logSteps.findIndex((step, n) => n > from && step >= high);
  const steps = logSteps.slice(from, to < 0 ? undefined : to + 1);
  const [first = 1, last = 10] = [steps[0], steps.at(-1)];
  const share = (value: number) => Math.log(Math.max(1, value) / first) / Math.log(last / first);
  return { steps, share };
}

/** Full minutes, hours or days of this time zone, as many as have room. */
function timesOf(at: readonly number[], width: number): readonly number[] {
  const [first = 0, end = 0] = [at[0], at.at(-1)];
  const step = timeSteps.find((one) => (one / Math.max(1, end - first)) * width >= timeRoom) ?? 100 * day;
  const zone = new Date(first).getTimezoneOffset() * minute;
  const from = Math.ceil((first - zone) / step) * step + zone;
  return Array.from({ length: Math.max(0, Math.floor((end - from) / step) + 1) }, (_, n) => from + n * step);
}
