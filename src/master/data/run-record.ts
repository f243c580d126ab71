// Reads and writes the records by which commands find the daemon of a data directory: run/master.json while
// the master holds the lock, run/dq.json while it is ready. Only the master writes them; the next start
// replaces those of a killed one.
// Invariants: dq.json has mode 0600, because it contains a token; the lock and the control socket decide
// whether the daemon lives, not these files; a record that was copied with its directory is not read, because
// it names the original daemon.

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isSameFile, type Place, placeOf, writeWhole } from '../../runtime/files.ts';

export interface RunRecord {
  /** of the master */
  readonly pid: number;
  /** epoch ms */
  readonly startedAt: number;
  /** base of the HTTP API, `http://127.0.0.1:6789` */
  readonly url: string;
  /** configuration file that the daemon has read; null = none */
  readonly file: string | null;
  /** of the console, `http://127.0.0.1:8088`; null = none listens */
  readonly console: string | null;
  /** addresses for clients of other queues, `{"php": "tcp://127.0.0.1:6789"}` */
  readonly compat: Readonly<Record<string, string>>;
  /** admin token of this start; not one of the registry's access tokens */
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

/** null = no daemon is ready on this data directory. */
export function readRunRecord(dataDir: string): RunRecord | null {
  return readRecord<RunRecord>(dataDir, runRecordPath(dataDir));
}

/** null = no daemon runs on this data directory, or it has just taken the lock. */
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

function writeRecord(dataDir: string, path: string, record: RunRecord | MasterRecord): void {
  const placed = { ...record, place: placeOf(runDirOf(dataDir)) };
  writeWhole(path, `${JSON.stringify(placed, null, 2)}\n`);
}

/** null also for a record of another directory: this one is a copy. */
function readRecord<T>(dataDir: string, path: string): T | null {
  try {
    const record = JSON.parse(readFileSync(path, 'utf8')) as T & { readonly place: Place };
    return isSameFile(record.place, placeOf(runDirOf(dataDir))) ? record : null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A power cut may leave an empty file; then no daemon runs.
    if (code === 'ENOENT' || code === 'ENOTDIR' || error instanceof SyntaxError) return null;
    throw error;
  }
}
