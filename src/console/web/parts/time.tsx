// A time on the page, with UTC in its tooltip.

import { untracked } from '@preact/signals';
import { clock, utc } from '../format.ts';

interface TimeProps {
  /** RFC 3339, or epoch ms */
  readonly at: string | number;
  /** a text of the time; the clock if absent */
  readonly text?: (epochMs: number) => string;
  readonly class?: string;
}

/** Drawn whenever its parent is: a component that reads signals is not, and its "2 min ago" would stay. */
export function Time({ at, text = clock, class: name }: TimeProps) {
  const ms = typeof at === 'number' ? at : Date.parse(at);
  return (
    <time class={name} dateTime={new Date(ms).toISOString()} title={utc(ms)}>
      {untracked(() => text(ms))}
    </time>
  );
}
