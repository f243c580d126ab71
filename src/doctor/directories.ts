// Checks the directories of dq and their disks: rights, file system, free space, time of an fsync. Writes a
// probe file and removes it; creates no directory. For a missing directory it checks the nearest existing
// parent.

import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { standardOutput } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { monotonicNow } from '../runtime/time.ts';
import { type Finding, of } from './finding.ts';
import { doctorLimits } from './limits.ts';

/** f_type of statfs(2): no reliable locks, fsync and shared memory. */
const remote: Readonly<Record<number, string>> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'CIFS',
  4266872130: 'SMB',
  12805120: 'Ceph',
  1397113167: 'AFS',
  1702057286: 'FUSE',
};
/** f_type of statfs(2): a reboot loses everything. */
const volatile: Readonly<Record<number, string>> = { 16914836: 'tmpfs', 2240043254: 'ramfs' };

export async function checkDataDirectory(path: string): Promise<Finding[]> {
  const finding = of('data directory');
  const unusable = whyUnusable(path);
  if (unusable !== null) return [finding('failed', unusable)];
  const at = nearestExisting(path);
  const kind = statfsSync(at).type;
  const network = remote[kind];
  if (network !== undefined)
    return [
      finding(
        'failed',
        `${path} is on ${network}: the store needs a local disk (locks, fsync, shared memory)`,
      ),
    ];
  const findings = [checkSpace(at), await checkSync(at)];
  const memory = volatile[kind];
  if (memory !== undefined)
    return [finding('warning', `${path} is on ${memory}: a reboot loses everything`), ...findings];
  const mode = existsSync(path) ? statSync(path).mode & 0o777 : 0o700;
  if ((mode & 0o022) !== 0)
    return [
      finding('warning', `others may write to ${path} (mode 0${mode.toString(8)}): chmod 700`),
      ...findings,
    ];
  return [finding('ok', existsSync(path) ? path : `${path} will be made`), ...findings];
}

export function checkLogDirectory(path: string): Finding {
  const finding = of('log directory');
  if (path === standardOutput) return finding('ok', 'the standard output');
  const unusable = whyUnusable(path);
  if (unusable !== null) return finding('failed', unusable);
  return finding('ok', existsSync(path) ? path : `${path} will be made`);
}

/** Bytes that a process may write to the disk of a path. */
export function freeBytesAt(path: string): number {
  const { bavail, bsize } = statfsSync(nearestExisting(path));
  return bavail * bsize;
}

function checkSpace(at: string): Finding {
  const finding = of('disk space');
  const bytes = freeBytesAt(at);
  const free = `${(bytes / 1024 ** 3).toFixed(2)} GiB free`;
  if (bytes < limits.startFreeBytes)
    return finding('failed', `${free}: a start needs ${limits.startFreeBytes / 1024} KiB`);
  if (bytes < doctorLimits.freeBytesWanted)
    return finding('warning', `${free}: dq rejects pushes when the disk is full`);
  return finding('ok', free);
}

/** Measures fdatasync: every push waits for one. */
async function checkSync(at: string): Promise<Finding> {
  const finding = of('disk sync');
  const path = join(at, `.dq-doctor-${process.pid}`);
  try {
    const page = Buffer.alloc(4096);
    const file = await open(path, 'wx', 0o600);
    const times: number[] = [];
    try {
      for (let n = 0; n < doctorLimits.syncs; n += 1) {
        await file.write(page);
        const from = monotonicNow();
        await file.datasync();
        times.push(monotonicNow() - from);
      }
    } finally {
      await file.close();
      await rm(path, { force: true });
    }
    times.sort((a, b) => a - b);
    const [median, worst] = [times[Math.floor(times.length / 2)] as number, times.at(-1) as number];
    const facts = `fdatasync of 4 KiB: ${median.toFixed(2)} ms, the slowest of ${times.length} ${worst.toFixed(1)} ms`;
    if (median > doctorLimits.syncSlowMs) return finding('warning', `${facts}: every push waits for one`);
    return finding('ok', facts);
  } catch (error) {
    return finding('failed', `cannot write a file to the disk: ${messageOf(error)}`);
  }
}

function whyUnusable(path: string): string | null {
  const at = nearestExisting(path);
  if (!statSync(at).isDirectory()) return `${at} is not a directory`;
  try {
    accessSync(at, constants.R_OK | constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return `cannot use ${at}: ${messageOf(error)}`;
  }
}

function nearestExisting(path: string): string {
  let at = path;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  return at;
}
