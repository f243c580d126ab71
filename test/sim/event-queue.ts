// The events of a simulated world in the order of their moments: a binary heap.
// Invariant: events of one moment come in the order of `tie`, then of their scheduling.

import type { Process } from './process.ts';

export interface SimEvent {
  /** virtual ms */
  at: number;
  tie: number;
  readonly order: number;
  /** null: of the world itself */
  readonly process: Process | null;
  readonly label: string;
  readonly run: () => void;
  isCancelled: boolean;
}

export class EventQueue {
  readonly #heap: SimEvent[] = [];

  get first(): SimEvent | undefined {
    return this.#heap[0];
  }

  add(event: SimEvent): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const up = (at - 1) >> 1;
      if (!isBefore(event, heap[up] as SimEvent)) break;
      heap[at] = heap[up] as SimEvent;
      at = up;
    }
    heap[at] = event;
  }

  removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      if (down >= heap.length) break;
      if (down + 1 < heap.length && isBefore(heap[down + 1] as SimEvent, heap[down] as SimEvent)) down += 1;
      if (!isBefore(heap[down] as SimEvent, last)) break;
      heap[at] = heap[down] as SimEvent;
      at = down;
    }
    heap[at] = last;
  }
}

function isBefore(a: SimEvent, b: SimEvent): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.tie !== b.tie) return a.tie < b.tie;
  return a.order < b.order;
}
