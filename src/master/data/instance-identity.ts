// Reads or draws the identity of this instance: the number of its leases in the store, drawn once per data
// directory. Invariant: two instances on one Redis have different numbers, even if a machine or a directory
// was copied. Otherwise each would take the processes of the other for dead and recover their leases.

import { createHash } from 'node:crypto';
import { readFileSync, realpathSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { placeOf } from '../../runtime/files.ts';
import { randomInt } from '../../runtime/time.ts';

export interface InstanceIdentity {
  /** 32 random bits */
  readonly instance: number;
  /** of the worker that was started last */
  readonly incarnation: number;
  /** machine and path that it was drawn for */
  readonly home: string;
  /** inode of the data directory that it was drawn for: a copy at the same path has another one. Without the
   *  device number, which may change at each boot */
  readonly inode: string;
}

/** Not in run/, which may be removed: leases in the store belong to this instance. */
export function identityPath(dataDir: string): string {
  return join(dataDir, 'instance.json');
}

interface ReadIdentity {
  readonly identity: InstanceIdentity;
  /** one sentence if the directory had another identity before; null = it did not */
  readonly changed: string | null;
}

/** `isShared`: other instances may use the same store. With a store of its own a moved directory keeps its
 *  identity, so that a start recovers its leases before they expire. */
export function readInstanceIdentity(dataDir: string, isShared: boolean): ReadIdentity {
  const home = homeOf(dataDir);
  const { inode } = placeOf(dataDir);
  let kept: Partial<InstanceIdentity>;
  try {
    kept = JSON.parse(readFileSync(identityPath(dataDir), 'utf8')) as Partial<InstanceIdentity>;
  } catch {
    // A first start, or a file damaged by a power cut: leases of the former identity expire.
    kept = {};
  }
  const causes = [
    ...(differs(kept.home, home)
      ? ['the path of the data directory, the host name or the machine id changed']
      : []),
    ...(differs(kept.inode, inode) ? ['the data directory was copied or moved to another file system'] : []),
  ];
  const isCopy = isShared && causes.length > 0;
  const identity = {
    instance: isCopy ? draw() : (kept.instance ?? draw()),
    incarnation: kept.incarnation ?? 0,
    home: isCopy ? home : (kept.home ?? home),
    inode: isCopy ? inode : (kept.inode ?? inode),
  };
  const changed = isCopy
    ? `new instance identity: ${causes.reverse().join(', and ')}; leases of instance ${kept.instance} expire`
    : null;
  return { identity, changed };
}

const differs = (kept: string | undefined, now: string): boolean => kept !== undefined && kept !== now;
// 1 … 2^32 - 1: 0 is pullOwner's.
const draw = (): number => randomInt(1, 2 ** 32);

/** Some copies of a machine keep its machine id; few keep its host name. */
function homeOf(dataDir: string): string {
  const parts = [machineId(), hostname(), realpathSync(dataDir)];
  return createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 16);
}

function machineId(): string {
  try {
    return readFileSync('/etc/machine-id', 'utf8').trim();
  } catch {
    // Not every system has one; host name and path identify most copies.
    return '';
  }
}
