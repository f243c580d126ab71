// What a journal needs besides Redis and MySQL: packets that hold a batch, disk space for the spool, and
// clocks that agree.

import { statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Config, journalModeOf } from '../config/options.ts';
import { type Finding, findingsOf } from '../core/finding.ts';
import { doctorLimits } from './limits.ts';

const finding = findingsOf('journal');

export const wantsJournal = (config: Config): boolean => journalModeOf(config) !== 'off';

/** `packet`: max_allowed_packet. A batch that does not fit would stop the journal. */
export function checkPacket(packet: number): Finding {
  const least = doctorLimits.journalPacketBytes;
  return packet >= least
    ? finding('ok', 'packet_ok', { packet })
    : finding('failed', 'packet_small', { packet, least });
}

/** `server`: its name; `aheadMs`: of this machine, without the round trip. Empty: they agree. */
export function checkClockOf(server: string, aheadMs: number): Finding[] {
  if (Math.abs(aheadMs) < doctorLimits.journalClockMs) return [];
  const ms = Math.round(Math.abs(aheadMs));
  return [finding('warning', aheadMs > 0 ? 'clock_ahead' : 'clock_behind', { server, ms })];
}

/** `freeBytes`: of the disk of the data directory */
export async function checkSpoolSpace(config: Config, freeBytes: number): Promise<Finding> {
  const used = await bytesIn(join(config.dataDir, 'spool'));
  const max = config['journal.spoolBytes'] * doctorLimits.journalEndsPart;
  const values = { free: mebibytes(freeBytes), max: mebibytes(max) };
  return used + freeBytes >= max
    ? finding('ok', 'spool_ok', values)
    : finding('warning', 'spool_large', values);
}

const mebibytes = (bytes: number): number => Math.floor(bytes / 1024 ** 2);

/** 0 without the directory. */
async function bytesIn(directory: string): Promise<number> {
  if (statSync(directory, { throwIfNoEntry: false }) === undefined) return 0;
  const names = await readdir(directory, { recursive: true });
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(directory, name)).then(
        (found) => (found.isFile() ? found.size : 0),
        () => 0, // removed meanwhile
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
