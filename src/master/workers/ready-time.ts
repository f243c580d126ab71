// Computes how long a worker may take until it is ready; then the master kills it. Reads file sizes only.
// The time of dq-store grows with jobs.db: after an unclean end it reads the whole
// file without sending a message, and with a fixed time a large store could never be
// opened again. The other roles read all topics first.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config/options.ts';
import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';

type Paths = Pick<Config, 'dataDir' | 'mysql.url'>;

/** ms */
export function readyMsOf(role: RoleName, config: Paths): number {
  const { dataDir } = config;
  if (role === 'console') return masterLimits.consoleReadyMs;
  if (role !== 'store')
    return (
      masterLimits.workerReadyMs + Math.ceil(registryBytes(config) / masterLimits.registryReadBytesPerMs)
    );
  const bytes = sizeOf(join(dataDir, 'jobs.db')) + sizeOf(join(dataDir, 'jobs.db-wal'));
  return masterLimits.storeReadyMs + Math.ceil(bytes / masterLimits.storeCheckBytesPerMs);
}

/** The copy shows the size of a registry in MySQL; at a first start there is none, and an old one may be much
 *  smaller. */
function registryBytes({ dataDir, 'mysql.url': mysql }: Paths): number {
  const copy = sizeOf(join(dataDir, 'registry-copy.json'));
  const inMysql = mysql === '' ? copy : Math.max(copy, masterLimits.registryInMysqlBytes);
  return sizeOf(join(dataDir, 'registry.db')) + inMysql;
}

function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    // dq-store reports an unreadable directory.
    return 0;
  }
}
