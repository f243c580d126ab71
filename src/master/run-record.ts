// run/dq.json: how commands on this machine find the daemon of a data directory. Written by the master alone, when it is
// ready, and removed by it alone, at the end; one that outlived a kill -9 is replaced by the next start. It holds a token,
// so nobody else may read it (0600). Whether the daemon lives is decided by its lock, never by this file.

import { readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface RunRecord {
  /** of the master */
  readonly pid: number;
  /** epoch ms */
  readonly startedAt: number;
  /** base of the HTTP API, `http://127.0.0.1:6789` */
  readonly url: string;
  /** admin token of this start; does not count as "a token exists" */
  readonly adminToken: string;
  readonly version: string;
}

export function runDirOf(dataDir: string): string {
  return join(dataDir, 'run');
}

export function runRecordPath(dataDir: string): string {
  return join(runDirOf(dataDir), 'dq.json');
}

/** null = there is none: nothing has been ready on this data directory, or it has stopped. */
export function readRunRecord(dataDir: string): RunRecord | null {
  let text: string;
  try {
    text = readFileSync(runRecordPath(dataDir), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  return JSON.parse(text) as RunRecord;
}

/** Atomic: a reader sees the old record or the new one, whole. */
export function writeRunRecord(dataDir: string, record: RunRecord): void {
  writeWhole(runRecordPath(dataDir), `${JSON.stringify(record, null, 2)}\n`);
}

export function removeRunRecord(dataDir: string): void {
  try {
    unlinkSync(runRecordPath(dataDir));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** A file of run/, 0600, replaced in one step. */
export function writeWhole(path: string, text: string): void {
  const next = `${path}.next`;
  writeFileSync(next, text, { mode: 0o600 });
  renameSync(next, path);
}
