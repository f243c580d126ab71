// Checks the directories of dq and their disks: rights, file system, free space, time of an fsync. Writes a
// probe file and removes it; creates no directory. For a missing directory it checks the nearest existing
// parent.

import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { standardOutput } from '../config/options.ts';
import { messageOf } from '../core/errors.ts';
import { type Finding, findingsOf, type Judge } from '../core/finding.ts';
import { limits } from '../core/limits.ts';
import { monotonicNow } from '../runtime/time.ts';
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
  const finding = findingsOf('data directory');
  const unusable = whyUnusable(finding, path);
  if (unusable !== null) return [unusable];
  const at = nearestExisting(path);
  const kind = statfsSync(at).type;
  const network = remote[kind];
  if (network !== undefined) return [finding('failed', 'directory_remote', { path, system: network })];
  const findings = [checkSpace(at), await checkSync(at)];
  const memory = volatile[kind];
  if (memory !== undefined)
    return [finding('warning', 'directory_volatile', { path, system: memory }), ...findings];
  const mode = existsSync(path) ? statSync(path).mode & 0o777 : 0o700;
  if ((mode & 0o022) !== 0)
    return [finding('warning', 'directory_writable', { path, mode: mode.toString(8) }), ...findings];
  return [existing(finding, path), ...findings];
}

export function checkLogDirectory(path: string): Finding {
  const finding = findingsOf('log directory');
  if (path === standardOutput) return finding('ok', 'log_output');
  return whyUnusable(finding, path) ?? existing(finding, path);
}

const existing = (finding: Judge, path: string): Finding =>
  finding('ok', existsSync(path) ? 'directory_ok' : 'directory_later', { path });

/** Bytes that a process may write to the disk of a path. */
export function freeBytesAt(path: string): number {
  const { bavail, bsize } = statfsSync(nearestExisting(path));
  return bavail * bsize;
}

function checkSpace(at: string): Finding {
  const finding = findingsOf('disk space');
  const bytes = freeBytesAt(at);
  const free = (bytes / 1024 ** 3).toFixed(2);
  if (bytes < limits.startFreeBytes)
    return finding('failed', 'space_none', { free, least: limits.startFreeBytes / 1024 });
  if (bytes < doctorLimits.freeBytesWanted) return finding('warning', 'space_low', { free });
  return finding('ok', 'space_ok', { free });
}

/** Measures fdatasync: every push waits for one. */
async function checkSync(at: string): Promise<Finding> {
  const finding = findingsOf('disk sync');
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
    const values = { median: median.toFixed(2), count: times.length, worst: worst.toFixed(1) };
    if (median > doctorLimits.syncSlowMs) return finding('warning', 'sync_slow', values);
    return finding('ok', 'sync_ok', values);
  } catch (error) {
    return finding('failed', 'sync_failed', { why: messageOf(error) });
  }
}

function whyUnusable(finding: Judge, path: string): Finding | null {
  const at = nearestExisting(path);
  if (!statSync(at).isDirectory()) return finding('failed', 'directory_none', { path: at });
  try {
    accessSync(at, constants.R_OK | constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return finding('failed', 'directory_unusable', { path: at, why: messageOf(error) });
  }
}

/** The path, or its nearest parent that exists. */
export function nearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path));
}
