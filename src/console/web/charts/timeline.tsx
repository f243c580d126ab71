// Timeline of a job: accepted, due, attempts, now, planned attempts, dead letter. Long gaps are shortened: the
// width of a gap grows with the logarithm of its time, and gaps above an hour carry their length.

import { clock, duration } from '../format.ts';
import { t } from '../words/words.ts';

export interface TimelinePoint {
  readonly at: number;
  readonly kind: 'accepted' | 'due' | 'failed' | 'delivered' | 'planned' | 'dead' | 'ended' | 'now';
  readonly label: string;
  /** below the point, under its time */
  readonly note?: string;
}

const width = 1180;
const margin = 48;
const line = 62;

const looks: Readonly<Record<TimelinePoint['kind'], string>> = {
  accepted: 'fill-surface stroke-quiet',
  due: 'fill-surface stroke-delayed',
  failed: 'fill-dead',
  delivered: 'fill-done',
  planned: 'empty stroke-quiet',
  dead: 'empty stroke-dead',
  ended: 'fill-quiet',
  now: '',
};

/** Pixels between two points, for their labels. */
const gapMin = 84;

/** `points`: by time. */
export function Timeline({ points, label }: { points: readonly TimelinePoint[]; label: string }) {
  const gaps = points.slice(1).map(({ at }, n) => Math.max(0, at - (points[n]?.at ?? at)));
  const weights = gaps.map((ms) => 1 + Math.log10(1 + ms / 1_000));
  const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
  const room = width - 2 * margin;
  const least = Math.min(gapMin, room / Math.max(1, gaps.length));
  const xs = [margin];
  for (const weight of weights)
    xs.push((xs.at(-1) ?? 0) + least + ((room - least * gaps.length) * weight) / total);
  const nowAt = points.findIndex(({ kind }) => kind === 'now');
  const nowX = nowAt < 0 ? width - margin : (xs[nowAt] ?? width - margin);
  return (
    <svg class="chart" viewBox={`0 0 ${width} 118`} role="img" aria-label={label}>
      <line class="axis" x1={margin} x2={nowX} y1={line} y2={line} />
      <line class="axis dash" x1={nowX} x2={width - margin} y1={line} y2={line} />
      {gaps.map((ms, n) => {
        const middle = ((xs[n] ?? 0) + (xs[n + 1] ?? 0)) / 2;
        const between = (xs[n + 1] ?? 0) - (xs[n] ?? 0);
        if (ms < 1_000 || between < gapMin || points[n + 1]?.kind === 'now' || points[n]?.kind === 'now')
          return null;
        const text = duration(ms);
        const half = 12 + text.length * 3;
        return ms >= 3_600_000 ? (
          <g key={`gap ${n.toString()}`}>
            <rect class="gap" x={middle - half} y={line - 10} width={2 * half} height="20" rx="10" />
            <text class="note" x={middle} y={line + 4} text-anchor="middle">
              {text}
            </text>
          </g>
        ) : (
          <text key={`gap ${n.toString()}`} x={middle} y={line - 8} text-anchor="middle">
            {text}
          </text>
        );
      })}
      {points.map((point, n) => (
        <Point
          key={`${point.kind} ${point.label}`}
          point={point}
          x={xs[n] ?? 0}
          anchor={n === 0 ? 'start' : n === points.length - 1 ? 'end' : 'middle'}
          // Labels of points that are closer would overlap.
          crowded={n > 0 && least < 76}
        />
      ))}
    </svg>
  );
}

function Point({
  point,
  x,
  anchor,
  crowded,
}: {
  point: TimelinePoint;
  x: number;
  anchor: 'start' | 'middle' | 'end';
  crowded: boolean;
}) {
  if (point.kind === 'now')
    return (
      <>
        <line class="now" x1={x} x2={x} y1="20" y2="100" />
        <text class="strong" x={x} y="12" text-anchor="middle">
          {point.label}
        </text>
      </>
    );
  return (
    <>
      <circle class={looks[point.kind]} stroke-width="2" cx={x} cy={line} r="5">
        <title>{`${point.label} · ${clock(point.at)}`}</title>
      </circle>
      {crowded ? null : (
        <>
          <text class={point.kind === 'planned' ? 'note' : 'strong'} x={x} y="44" text-anchor={anchor}>
            {point.label}
          </text>
          <text x={x} y="88" text-anchor={anchor}>
            {clock(point.at)}
          </text>
          {point.note === undefined ? null : (
            <text x={x} y="104" text-anchor={anchor}>
              {point.note}
            </text>
          )}
        </>
      )}
    </>
  );
}

/** The same as a list, newest first, for phones. */
export function TimelineList({ points }: { points: readonly TimelinePoint[] }) {
  const pills: Readonly<Record<TimelinePoint['kind'], string>> = {
    accepted: 'is-quiet',
    due: 'is-delayed',
    failed: 'is-dead',
    delivered: 'is-done',
    planned: 'is-quiet ring',
    dead: 'is-dead ring',
    ended: 'is-quiet',
    now: '',
  };
  return (
    <ol class="list phone-only">
      {[...points]
        .reverse()
        .filter(({ kind }) => kind !== 'now')
        .map((point) => (
          <li key={`${point.kind} ${point.label}`}>
            <span class={`pill ${pills[point.kind]}`}>{point.label}</span>
            <span class="grow">{point.note ?? ''}</span>
            <time class="faint num">{clock(point.at)}</time>
          </li>
        ))}
    </ol>
  );
}

export const timelineLegend = () => (
  <span class="legend desk">
    <span>
      <i class="fill-dead" />
      {t('legend_failed')}
    </span>
    <span>
      <i class="fill-done" />
      {t('legend_delivered')}
    </span>
    <span>
      <i class="fill-quiet" />
      {t('legend_planned')}
    </span>
  </span>
);
