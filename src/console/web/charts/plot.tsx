// A card with lines over time: the chart, its legend with the values under the pointer, and the same numbers
// as a table. The library of the chart is loaded with the first one.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { axisClock, clock } from '../format.ts';
import { Button, Card, Empty } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { language, t } from '../words/words.ts';
import type { Line } from './draw.ts';

/** Rows of a table: a screen scrolls through them. */
const rowsMax = 240;

export interface PlotProps {
  readonly title: string;
  readonly note: string;
  readonly width: 4 | 5 | 6 | 7 | 8;
  /** beside the switch between chart and table */
  readonly end?: ComponentChildren;
  /** epoch ms; null: not loaded yet */
  readonly at: readonly number[] | null;
  readonly lines: readonly Line[];
  readonly isUnfinished: boolean;
  readonly isLog?: boolean;
  readonly valueText: (value: number) => string;
  /** instead of a chart without any value */
  readonly empty: string;
}

/** Steps before the first recorded one are not drawn: on the first day they would be most of the chart. A few
 *  stay, so that the first values are more than a point. */
const stepsMin = 10;

function fromFirst(times: PlotProps['at'], lines: PlotProps['lines']): Pick<PlotProps, 'at' | 'lines'> {
  const first = times?.findIndex((_, n) => lines.some(({ values }) => typeof values[n] === 'number')) ?? 0;
  const from = Math.max(0, Math.min(first, (times?.length ?? 0) - stepsMin));
  return {
    at: times?.slice(from) ?? null,
    lines: lines.map((line) => ({ ...line, values: line.values.slice(from) })),
  };
}

export function Plot({ title, note, width, end, valueText, empty, ...rest }: PlotProps) {
  const { at, lines } = fromFirst(rest.at, rest.lines);
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
          <Canvas {...rest} title={title} at={at} lines={lines} valueText={valueText} onHover={setHover} />
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

function Canvas({
  title,
  at,
  lines,
  isUnfinished,
  isLog = false,
  valueText,
  onHover,
}: Pick<PlotProps, 'title' | 'lines' | 'isUnfinished' | 'isLog' | 'valueText'> & {
  at: readonly number[];
  onHover: (index: number | null) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const [themes, setThemes] = useState(0);
  useEffect(() => {
    const next = (): void => setThemes((n) => n + 1);
    const watch = new MutationObserver(next);
    watch.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', next);
    return () => {
      watch.disconnect();
      scheme.removeEventListener('change', next);
    };
  }, []);
  // A poll without news draws nothing again.
  const drawn = JSON.stringify([at, lines, isUnfinished, themes, language.value]);
  useEffect(() => {
    const { current } = host;
    if (current === null) return;
    let end = (): void => {};
    let ended = false;
    void import('./draw.ts').then(({ draw }) => {
      if (ended) return;
      const isLong = (at.at(-1) ?? 0) - (at[0] ?? 0) > 26 * 3_600_000;
      const timeText = (ms: number): string => axisClock(ms, isLong);
      const height = current.clientHeight;
      const plot = draw(current, { at, lines, isUnfinished, isLog, height, valueText, timeText, onHover });
      const sizes = new ResizeObserver(() => plot.resize(current.clientWidth));
      sizes.observe(current);
      end = () => {
        sizes.disconnect();
        plot.end();
      };
    });
    return () => {
      ended = true;
      end();
    };
  }, [drawn]);
  return <div class="plot" ref={host} role="img" aria-label={title} />;
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
