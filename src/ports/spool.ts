// The port of the spool: the files on this host that hold the journal's records until MySQL has them.

import type { Change } from '../core/journal/change.ts';

export interface Spool {
  /** Whether the disk space of the spool admits `bytes` more. `accept`: pushes and verbs; asked before they
   *  reach the store, which would otherwise hold what the journal cannot. `end`: ends and failed attempts,
   *  which go on into a further tenth. */
  admits(use: 'accept' | 'end', bytes: number): boolean;
  /** Resolves when the records are `written` to the file, or `synced` to the disk (with journal.mode lazy:
   *  written). Rejects with StoreError `unknown`, code `spool_failed`, when a write or fdatasync failed, or
   *  after limits.redisCallMs; the records are written once more, into a new segment. */
  write(changes: readonly Change[], until: 'written' | 'synced'): Promise<void>;
  /** Ends the stream of this process: all records are synced, and nothing follows. */
  close(): Promise<void>;
}
