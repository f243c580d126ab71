// A line of 74 × 22 without axes, for tiles and rows. Steps that were not recorded are gaps.

import type { Colour } from '../parts/parts.tsx';

const [width, height, margin] = [74, 22, 2];

/** A few steps before the first recorded one, so that the first values are more than a point. */
const stepsMin = 10;

/** Where a drawing begins: on the first day the steps without a record would be most of it. `first`: the first
 *  recorded step; -1: none. */
export const startOf = (first: number, steps: number): number =>
  Math.max(0, Math.min(first, steps - stepsMin));

export function Spark({
  values: all,
  colour,
  label,
}: {
  values: readonly (number | null)[];
  colour: Colour;
  label: string;
}) {
  const first = all.findIndex((value) => value !== null);
  const values = all.slice(startOf(first, all.length));
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const least = Math.min(0, ...known);
  const room = Math.max(...known) - least || 1;
  const x = (n: number) => (n * width) / (values.length - 1);
  const y = (value: number) => height - margin - ((value - least) * (height - 2 * margin)) / room;
  const runs = runsOf(values);
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {runs.map((run) => {
        const points = run.map(([n, value]) => `${x(n).toFixed(1)},${y(value).toFixed(1)}`);
        const [first, last] = [run[0]?.[0] ?? 0, run.at(-1)?.[0] ?? 0];
        return (
          <g key={first}>
            <polygon
              class={`soft-${colour}`}
              points={[`${x(first)},${height}`, ...points, `${x(last)},${height}`].join(' ')}
            />
            <polyline class={`l stroke-${colour}`} points={points.join(' ')} />
          </g>
        );
      })}
    </svg>
  );
}

/** Recorded steps side by side: pairs of index and value. */
export function runsOf(values: readonly (number | null)[]): (readonly [number, number])[][] {
  const runs: (readonly [number, number])[][] = [[]];
  for (const [n, value] of values.entries())
    if (value === null) runs.push([]);
    else runs.at(-1)?.push([n, value]);
  return runs.filter((run) => run.length > 0);
}
