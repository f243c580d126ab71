// Timeline of a job: accepted, due, attempts, moves by operators, now, planned attempts, dead letter. Long gaps
// are shortened: the width of a gap grows with the logarithm of its time, and its length is written in it.
// Labels never overlap: points that have no room for one show their number, and all are in the story of the job.

import { clock, dots, duration, utc } from '../format.ts';
import { t } from '../words/words.ts';
import { textWidth, useWidth } from './measure.ts';

export interface TimelinePoint {
  readonly at: number;
  readonly kind:
    | 'accepted'
    | 'due'
    | 'failed'
    | 'delivered'
    | 'running'
    | 'move'
    | 'next'
    | 'planned'
    | 'dead'
    | 'ended'
    | 'now';
  readonly label: string;
  /** of an attempt: its number, where the label has no room */
  readonly short?: string;
  /** default: its time of day */
  readonly time?: string;
  /** below the time */
  readonly note?: string;
  /** of the pill in the story */
  readonly pill?: string;
}

const margin = 40;
const line = 62;

const looks: Readonly<Record<TimelinePoint['kind'], string>> = {
  accepted: 'fill-surface stroke-quiet',
  due: 'fill-surface stroke-delayed',
  failed: 'fill-dead',
  delivered: 'fill-done',
  running: 'fill-running',
  move: 'fill-surface stroke-accent',
  next: 'empty stroke-accent',
  planned: 'empty stroke-quiet',
  dead: 'fill-surface stroke-dead',
  ended: 'fill-quiet',
  now: '',
};

/** Pixels that a point needs for its label (11 px type: "19 Nov 14:21"), for a number, and for the line of now. */
const roomOf = { whole: 88, short: 30, now: 26 } as const;

interface Placed {
  readonly point: TimelinePoint;
  readonly room: keyof typeof roomOf;
  readonly x: number;
}

const roomOfKind = ({ kind }: TimelinePoint): keyof typeof roomOf =>
  kind === 'now' ? 'now' : kind === 'planned' ? 'short' : 'whole';

const isTooWide = (rooms: readonly (keyof typeof roomOf)[], width: number): boolean =>
  rooms.reduce((sum, room) => sum + roomOf[room], 0) > width - margin;

/** A narrow line ends with the next attempt: the story has what is planned after it. */
const fitting = (points: readonly TimelinePoint[], width: number): readonly TimelinePoint[] =>
  isTooWide(points.map(roomOfKind), width) ? points.filter(({ kind }) => kind !== 'planned') : points;

/** Planned attempts, then the oldest attempts, give up their labels until the others have room. */
function roomsOf(points: readonly TimelinePoint[], width: number): (keyof typeof roomOf)[] {
  const rooms = points.map(roomOfKind);
  for (const [n, { short }] of points.entries()) {
    if (!isTooWide(rooms, width)) break;
    if (short !== undefined && rooms[n] === 'whole' && n < points.length - 4) rooms[n] = 'short';
  }
  return rooms;
}

function place(points: readonly TimelinePoint[], width: number): readonly Placed[] {
  const rooms = roomsOf(points, width);
  const gaps = points.slice(1).map(({ at }, n) => Math.max(0, at - (points[n]?.at ?? at)));
  const least = gaps.map((_, n) => (roomOf[rooms[n] ?? 'whole'] + roomOf[rooms[n + 1] ?? 'whole']) / 2);
  const weights = gaps.map((ms) => Math.log10(1 + ms / 1_000));
  // A job that ended at once has a short line.
  const whole = Math.max(
    weights.reduce((sum, weight) => sum + weight, 0),
    1.5 * gaps.length,
  );
  const needed = least.reduce((sum, pixels) => sum + pixels, 0);
  const free = width - 2 * margin - needed;
  // More points than fit even as numbers: they move together.
  const squeeze = Math.min(1, (width - 2 * margin) / Math.max(1, needed));
  let x = margin;
  return points.map((point, n) => {
    if (n > 0) x += (least[n - 1] ?? 0) * squeeze + (Math.max(0, free) * (weights[n - 1] ?? 0)) / whole;
    return { point, room: rooms[n] ?? 'whole', x };
  });
}

interface TimelineProps {
  /** by time */
  readonly points: readonly TimelinePoint[];
  readonly label: string;
}

export function Timeline(props: TimelineProps) {
  const { ref, width } = useWidth();
  return <div ref={ref}>{width === 0 ? null : <Line {...props} width={width} />}</div>;
}

function Line({ points, label, width }: TimelineProps & { readonly width: number }) {
  const placed = place(fitting(points, width), width);
  const last = placed.at(-1)?.x ?? width - margin;
  const now = placed.find(({ point }) => point.kind === 'now')?.x ?? last;
  return (
    <svg class="chart" viewBox={`0 0 ${width} 118`} role="img" aria-label={label}>
      <line class="axis" x1={margin} x2={now} y1={line} y2={line} />
      <line class="axis dash" x1={now} x2={last} y1={line} y2={line} />
      {placed.slice(1).map((to, n) => (
        <Gap key={`gap ${n.toString()}`} from={placed[n] as Placed} to={to} isFirst={n === 0} />
      ))}
      {placed.map(({ point, room, x }, n) => (
        <Point
          key={`${point.kind} ${point.label} ${point.at.toString()}`}
          point={point}
          x={x}
          anchor={n === 0 ? 'start' : n === placed.length - 1 && n > 0 && x > width - 80 ? 'end' : 'middle'}
          isShort={room === 'short'}
        />
      ))}
    </svg>
  );
}

/** The length of a gap, where it has room between the labels. */
function Gap({ from, to, isFirst }: { from: Placed; to: Placed; isFirst: boolean }) {
  const ms = to.point.at - from.point.at;
  if (ms < 1_000 || from.point.kind === 'now' || to.point.kind === 'now') return null;
  const text = duration(ms);
  // The label of the first point begins at its point; the others are centred.
  const start = isFirst ? from.x + textWidth(from.point.label) - textWidth(to.point.label) / 2 : from.x;
  const middle = (start + to.x) / 2;
  const half = 12 + text.length * 3;
  if (to.x - start < 2 * half + 16) return null;
  if (ms < 3_600_000)
    return (
      <text x={middle} y={line - 8} text-anchor="middle">
        {text}
      </text>
    );
  return (
    <>
      <rect class="gap" x={middle - half} y={line - 10} width={2 * half} height="20" rx="10" />
      <text class="note" x={middle} y={line + 4} text-anchor="middle">
        {text}
      </text>
    </>
  );
}

function Point({
  point,
  x,
  anchor,
  isShort,
}: {
  point: TimelinePoint;
  x: number;
  anchor: 'start' | 'middle' | 'end';
  isShort: boolean;
}) {
  if (point.kind === 'now')
    return (
      <>
        <line class="now" x1={x} x2={x} y1="20" y2="96" />
        <text class="strong" x={x} y="12" text-anchor="middle">
          {point.label}
        </text>
      </>
    );
  // The circle stands at the text's edge, where the text begins or ends there.
  const textX = anchor === 'start' ? x - 5 : anchor === 'end' ? x + 5 : x;
  return (
    <>
      <circle
        class={looks[point.kind]}
        stroke-width="2"
        cx={x}
        cy={line}
        r={point.kind === 'failed' ? 6 : 5.5}
      >
        <title>{dots(point.label, clock(point.at), point.note, utc(point.at))}</title>
      </circle>
      <text
        class={isShort ? '' : 'strong'}
        x={isShort ? x : textX}
        y="44"
        text-anchor={isShort ? 'middle' : anchor}
      >
        {isShort ? (point.short ?? '') : point.label}
      </text>
      {isShort && point.time === undefined ? null : (
        <>
          <text x={isShort ? x + 5 : textX} y="88" text-anchor={isShort ? 'end' : anchor}>
            {point.time ?? clock(point.at)}
          </text>
          {point.note === undefined ? null : (
            <text x={textX} y="104" text-anchor={anchor}>
              {point.note}
            </text>
          )}
        </>
      )}
    </>
  );
}

/** The circle of a point, for a line of text. */
export const PointDot = ({ kind }: Pick<TimelinePoint, 'kind'>) => (
  <svg class="icon s" viewBox="0 0 16 16" aria-hidden="true">
    <circle class={looks[kind]} stroke-width="2" cx="8" cy="8" r="5" />
  </svg>
);

export const timelineLegend = () => (
  <span class="legend">
    <span>
      <i class="fill-dead" />
      {t('failed')}
    </span>
    <span>
      <i class="fill-done" />
      {t('delivered')}
    </span>
    <span>
      <i class="fill-quiet" />
      {t('legend_planned')}
    </span>
  </span>
);
