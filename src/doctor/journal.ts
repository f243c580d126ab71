// What a journal needs besides Redis and MySQL: packets that hold a batch, disk space for the spool, and
// clocks that agree.

import { statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Config, journalModeOf } from '../config/options.ts';
import { type Finding, of } from './finding.ts';
import { doctorLimits } from './limits.ts';

const finding = of('journal');

export const wantsJournal = (config: Config): boolean => journalModeOf(config) !== 'off';

/** `packet`: max_allowed_packet. A batch that does not fit would stop the journal. */
export function checkPacket(packet: number): Finding {
  const facts = `max_allowed_packet of MySQL is ${packet}`;
  if (packet >= doctorLimits.journalPacketBytes) return finding('ok', facts);
  return finding('failed', `${facts}: set it to at least ${doctorLimits.journalPacketBytes}`);
}

/** `server`: its name; `aheadMs`: of this machine, without the round trip. Empty: they agree. */
export function checkClockOf(server: string, aheadMs: number): Finding[] {
  if (Math.abs(aheadMs) < doctorLimits.journalClockMs) return [];
  const where = aheadMs > 0 ? 'ahead of' : 'behind';
  const facts = `the clock of ${server} is ${Math.round(Math.abs(aheadMs))} ms ${where} the clock of this machine`;
  return [
    finding(
      'warning',
      `${facts}: a restore may take an older push for the newer one; synchronise both (chrony)`,
    ),
  ];
}

/** `freeBytes`: of the disk of the data directory */
export async function checkSpoolSpace(config: Config, freeBytes: number): Promise<Finding> {
  const used = await bytesIn(join(config.dataDir, 'spool'));
  const max = config['journal.spoolBytes'] * doctorLimits.journalEndsPart;
  const facts = `${mebibytes(freeBytes)} MiB free for a spool of up to ${mebibytes(max)} MiB`;
  if (used + freeBytes >= max) return finding('ok', facts);
  return finding('warning', `${facts}: the disk is full before the spool is; lower journal.spoolBytes`);
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
