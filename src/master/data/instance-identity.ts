// Who this instance is: the number under which its leases lie in the store, drawn once for a data directory. Invariant: two
// instances on one Redis never have the same, also where a machine or a directory was copied: each would take the other's
// processes for dead, and their jobs away from them.

import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, realpathSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { placeOf } from '../../runtime/place.ts';

export interface InstanceIdentity {
  /** 32 random bits */
  readonly instance: number;
  /** the last that was given to a worker */
  readonly incarnation: number;
  /** machine and path that it was drawn for */
  readonly home: string;
  /** Inode of the data directory that it was drawn for: a copy that took the original's path has another one. Without the device:
   *  its number may change with each boot. undefined in files of earlier versions of dq. */
  readonly inode?: string;
}

/** Beside run/, not in it: leases in the store belong to this instance, and run/ may be cleaned away. */
export function identityPath(dataDir: string): string {
  return join(dataDir, 'instance.json');
}

export interface ReadIdentity {
  readonly identity: InstanceIdentity;
  /** One sentence where the directory had another identity so far; null = it has not */
  readonly changed: string | null;
}

/** `isShared`: others may have leases in the same store. With a store of its own a moved directory stays who it was, so that its
 *  leases are taken back at the start, not when they run out. */
export function readInstanceIdentity(dataDir: string, isShared: boolean): ReadIdentity {
  const home = homeOf(dataDir);
  const { inode } = placeOf(dataDir);
  let kept: Partial<InstanceIdentity>;
  try {
    kept = JSON.parse(readFileSync(identityPath(dataDir), 'utf8')) as Partial<InstanceIdentity>;
  } catch {
    // A first start, or a file damaged by a power cut: leases of the former identity end by their time.
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
    ? `new instance identity: ${causes.reverse().join(', and ')}; leases of instance ${kept.instance} end by time`
    : null;
  return { identity, changed };
}

const differs = (kept: string | undefined, now: string): boolean => kept !== undefined && kept !== now;
const draw = (): number => randomBytes(4).readUInt32LE();

/** Copies of a machine keep the machine's id now and then, and its name never for long. */
function homeOf(dataDir: string): string {
  const parts = [machineId(), hostname(), realpathSync(dataDir)];
  return createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 16);
}

function machineId(): string {
  try {
    return readFileSync('/etc/machine-id', 'utf8').trim();
  } catch {
    // Not every system has one; name and place still tell most copies.
    return '';
  }
}
