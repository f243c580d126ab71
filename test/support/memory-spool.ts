// A spool in memory, which records its writes, and can be full or fail.

import type { Change } from '../../src/core/job-change.ts';
import type { Spool } from '../../src/ports/spool.ts';
import { StoreError } from '../../src/ports/store-error.ts';

export class MemorySpool implements Spool {
  readonly writes: { readonly changes: readonly Change[]; readonly until: 'written' | 'synced' }[] = [];
  /** bytes that every call of admits gave */
  readonly asked: number[] = [];
  isFull = false;
  /** writes are recorded and reject */
  isFailing = false;
  /** what a write waits for */
  disk: Promise<unknown> = Promise.resolve();
  isClosed = false;

  admits(bytes: number): boolean {
    this.asked.push(bytes);
    return !this.isFull;
  }

  async write(changes: readonly Change[], until: 'written' | 'synced'): Promise<void> {
    this.writes.push({ changes, until });
    await this.disk;
    if (this.isFailing) throw new StoreError({ kind: 'unknown', code: 'spool_failed' });
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }

  get rejectReason(): string | null {
    return this.isFull ? 'is full' : null;
  }

  get changes(): readonly Change[] {
    return this.writes.flatMap(({ changes }) => changes);
  }
}
