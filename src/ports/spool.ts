// The port of the spool: the files on this host that hold the journal's records until MySQL has them.

import type { Change } from '../core/journal/change.ts';

export interface Spool {
  /** Whether so many bytes of bodies fit into the limit of the spool. Asked before a push or verb reaches the
   *  store, which would otherwise hold what the journal cannot. Ends are written also when it is full, into
   *  a further tenth, but without their attempts. */
  admits(bytes: number): boolean;
  /** Resolves when the records are `written` to the file, or `synced` to the disk (journal.mode lazy: only
   *  written). Rejects with StoreError `unknown`, code `spool_failed`, when their write or fdatasync failed,
   *  or after limits.redisCallMs; the records are then written once more, into a new file. */
  write(changes: readonly Change[], until: 'written' | 'synced'): Promise<void>;
  /** Ends the stream of this process: its records are synced, and none follows. */
  close(): Promise<void>;
}
