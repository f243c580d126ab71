// Upcoming jobs by due time: one bar per class of the horizon, and the same numbers as a table.

import { useState } from 'preact/hooks';
import type { HorizonJson } from '../../../contract/api/stats.ts';
import { usePoll } from '../api/poll.ts';
import { clock, number, relative, shortNumber, useSecond } from '../format.ts';
import { List } from '../parts/list.tsx';
import { Button, Card, Empty, LoadError, Waiting } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t, wordOf } from '../words/words.ts';
import { useWidth } from './measure.ts';

type Classes = HorizonJson['classes'];

const height = 200;
/** A narrow card has no space for all labels: each second class is added to the next one. */
const narrowClasses = ['overdue', '5m', '1h', '6h', '1d', '7d', 'later'];
const wideFrom = 560;

const margin = 8;
const bottom = 24;
/** Above the highest bar: its number, and the word at the line of now. */
const top = 42;
const gap = 10;

/** Waiting jobs of a topic; null: of all that the session may see. Absent where the daemon has no horizon. */
export function Horizon({ topic, width = 8 }: { topic: string | null; width?: 8 | 12 }) {
  const [isTable, setTable] = useState(false);
  const { data, error, refresh } = usePoll<HorizonJson>('/v1/horizon', 30_000, {
    topic: topic ?? undefined,
  });
  useSecond();
  if (data === null && error?.code === 'no_route') return null;
  return (
    <Card
      title={t('horizon')}
      note={
        data === null ? undefined : (
          <Time
            at={data.at}
            text={(ms) => t('horizon_note', { count: shortNumber(data.total), time: relative(ms) })}
          />
        )
      }
      end={
        <Button look="plain s" onClick={() => setTable(!isTable)}>
          {t(isTable ? 'view_chart' : 'view_table')}
        </Button>
      }
      width={width}
      fill
    >
      <LoadError error={error} what={t('horizon')} retry={refresh} />
      {data === null ? (
        <Waiting error={error} />
      ) : data.total === 0 ? (
        <Empty>{t('horizon_empty')}</Empty>
      ) : isTable ? (
        <HorizonTable {...data} />
      ) : (
        <div class="body">
          <Bars {...data} />
        </div>
      )}
    </Card>
  );
}

/** "1m" → "1 min" */
function labelOf(upTo: string): string {
  const [, count, unit = ''] = /^(\d+)([mhd])$/.exec(upTo) ?? [];
  if (count === undefined) return wordOf(`horizon_${upTo}`, upTo);
  return `${count} ${wordOf(`unit_${unit === 'm' ? 'min' : unit}`, unit)}`;
}

function merged(classes: Classes): Classes {
  let sum = 0;
  return classes.flatMap(({ upTo, count }) => {
    sum += count;
    if (!narrowClasses.includes(upTo)) return [];
    const one = { upTo, count: sum };
    sum = 0;
    return [one];
  });
}

/** Heights grow by the square root: a few overdue jobs stay visible beside a million. */
function Bars(data: HorizonJson) {
  const { ref, width } = useWidth();
  const classes = width < wideFrom ? merged(data.classes) : data.classes;
  return <div ref={ref}>{width === 0 ? null : <BarsOf classes={classes} at={data.at} width={width} />}</div>;
}

function BarsOf({ classes, at, width }: { classes: Classes; at: string; width: number }) {
  const base = height - bottom;
  const slot = (width - 2 * margin) / classes.length;
  const most = Math.max(...classes.map(({ count }) => count), 1);
  const nowX = margin + slot;
  return (
    <svg class="chart" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={summaryOf(classes)}>
      <line class="axis" x1={margin} x2={width - margin} y1={base + 0.5} y2={base + 0.5} />
      {classes.map(({ upTo, count }, n) => {
        const x = margin + slot * n + gap / 2;
        const size = count === 0 ? 0 : Math.max(2, Math.sqrt(count / most) * (base - top));
        const middle = x + (slot - gap) / 2;
        return (
          <g key={upTo}>
            <rect
              class={upTo === 'overdue' ? 'fill-retry' : 'fill-delayed'}
              x={x}
              y={base - size}
              width={slot - gap}
              height={size}
              rx="3"
            />
            {count === 0 ? null : (
              <text class="note" x={middle} y={base - size - 6} text-anchor="middle">
                {shortCount(count)}
              </text>
            )}
            <text x={middle} y={height - 7} text-anchor="middle">
              {labelOf(upTo)}
            </text>
          </g>
        );
      })}
      <line class="now" x1={nowX} x2={nowX} y1="8" y2={base} />
      <text class="strong" x={nowX + 6} y="16">
        {t('horizon_now', { time: clock(Date.parse(at)).slice(0, 5) })}
      </text>
    </svg>
  );
}

/** Fits a bar: from 10,000 on short. */
const shortCount = (count: number): string => (count < 10_000 ? number(count) : shortNumber(count, 10_000));

function summaryOf(classes: Classes): string {
  const parts = classes.filter(({ count }) => count > 0);
  return `${t('horizon')}: ${parts.map(({ upTo, count }) => `${labelOf(upTo)} ${number(count)}`).join(', ')}`;
}

function HorizonTable({ classes, total }: HorizonJson) {
  const shareOf = ({ count }: Classes[number]): string => `${Math.round((1_000 * count) / total) / 10} %`;
  return (
    <List
      items={classes}
      empty=""
      keyOf={({ upTo }) => upTo}
      columns={{
        due: { head: t('due_within'), cell: ({ upTo }) => labelOf(upTo) },
        jobs: { head: t('jobs'), look: 'right', cell: ({ count }) => number(count) },
        share: { head: t('share'), look: 'right soft', cell: shareOf },
      }}
      card={(one) => (
        <div class="row">
          <span>{labelOf(one.upTo)}</span>
          <span class="num">
            {number(one.count)} · {shareOf(one)}
          </span>
        </div>
      )}
    />
  );
}
