// The attempts of a topic as points, with the waits between them.

import { duration } from '../format.ts';
import { t } from '../words/words.ts';

const width = 500;
const margin = 14;
const line = 36;
/** More points would touch each other. */
const shownMax = 12;

/** `waitsMs`: the wait after attempt 1, 2 … */
export function Ladder({ waitsMs }: { waitsMs: readonly number[] }) {
  const waits = waitsMs.slice(0, shownMax - 1);
  const step = waits.length === 0 ? 0 : (width - 2 * margin) / waits.length;
  const total = waitsMs.reduce((sum, wait) => sum + wait, 0);
  return (
    <svg
      class="chart"
      viewBox={`0 0 ${width} 66`}
      role="img"
      aria-label={t('schedule_note', { count: waitsMs.length + 1, time: duration(total) })}
    >
      <line class="axis" x1={margin} x2={margin + step * waits.length} y1={line} y2={line} />
      {[0, ...waits].map((wait, n) => {
        const x = margin + step * n;
        const point = n.toString();
        return (
          <g key={point}>
            <circle class="fill-accent" cx={x} cy={line} r="5" />
            <text class="note" x={x} y="22" text-anchor="middle">
              {n + 1}
            </text>
            {n === 0 ? null : (
              <text x={x - step / 2} y="57" text-anchor="middle">
                {duration(wait)}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}
