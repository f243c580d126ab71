// How commands on this machine find the daemon of a data directory: run/master.json from the moment it holds the lock,
// run/dq.json once it is ready. Both are written and removed by the master alone; what outlived a kill -9 is replaced by the
// next start. dq.json holds a token, so nobody else may read it (0600). Whether the daemon lives is decided by its lock and
// by who answers on the control socket, never by these files. Invariant: a record that was copied with its data directory is
// not read. It leads to the daemon of the original, with an admin token.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isSameFile, type Place, placeOf } from '../../runtime/place.ts';

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

export interface MasterRecord {
  readonly pid: number;
  /** epoch ms */
  readonly startedAt: number;
  readonly controlSocket: string;
}

export function runDirOf(dataDir: string): string {
  return join(dataDir, 'run');
}

const runRecordPath = (dataDir: string) => join(runDirOf(dataDir), 'dq.json');
const masterRecordPath = (dataDir: string) => join(runDirOf(dataDir), 'master.json');

/** null = there is none: nothing has been ready on this data directory, or it has stopped. */
export function readRunRecord(dataDir: string): RunRecord | null {
  return readRecord<RunRecord>(dataDir, runRecordPath(dataDir));
}

/** null = there is none: nothing runs on this data directory, or it has taken the lock this very moment. */
export function readMasterRecord(dataDir: string): MasterRecord | null {
  return readRecord<MasterRecord>(dataDir, masterRecordPath(dataDir));
}

export function writeRunRecord(dataDir: string, record: RunRecord): void {
  writeRecord(dataDir, runRecordPath(dataDir), record);
}

export function writeMasterRecord(dataDir: string, record: MasterRecord): void {
  writeRecord(dataDir, masterRecordPath(dataDir), record);
}

export function removeRecords(dataDir: string): void {
  rmSync(runRecordPath(dataDir), { force: true });
  rmSync(masterRecordPath(dataDir), { force: true });
}

/** A file of ours, 0600, replaced in one step: a reader sees the old text or the new one, whole. */
export function writeWhole(path: string, text: string): void {
  const next = `${path}.next`;
  writeFileSync(next, text, { mode: 0o600 });
  renameSync(next, path);
}

function writeRecord(dataDir: string, path: string, record: RunRecord | MasterRecord): void {
  const placed = { ...record, place: placeOf(runDirOf(dataDir)) };
  writeWhole(path, `${JSON.stringify(placed, null, 2)}\n`);
}

/** null also for a record of another directory: this one is a copy. Records of earlier versions of dq name no place. */
function readRecord<T>(dataDir: string, path: string): T | null {
  try {
    const record = JSON.parse(readFileSync(path, 'utf8')) as T & { readonly place?: Place };
    const { place } = record;
    return place === undefined || isSameFile(place, placeOf(runDirOf(dataDir))) ? record : null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A power cut may leave an empty file, and then nothing runs.
    if (code === 'ENOENT' || code === 'ENOTDIR' || error instanceof SyntaxError) return null;
    throw error;
  }
}
