// A card with lines over time: the chart, its legend with the values under the pointer, and the same numbers
// as a table.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { clock } from '../format.ts';
import { Button, Card, Empty } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';
import { Lines, type LinesProps } from './lines.tsx';
import { startOf } from './spark.tsx';

/** Rows of a table: a screen scrolls through them. */
const rowsMax = 240;

export interface PlotProps extends Omit<LinesProps, 'at' | 'hover' | 'onHover'> {
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
