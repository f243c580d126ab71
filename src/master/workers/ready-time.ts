// How long a worker may take until it is ready before it is taken for stuck and killed. dq-store reads the whole file after
// an unclean end (store-file.ts), in one piece and without a sign of life, so its time grows with the file: with a fixed one, a
// store too large to be read in it could never be opened again. The others read all topics before they are ready. Reads file sizes only.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config/options.ts';
import { limits } from '../../core/limits.ts';
import type { RoleName } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';

type Places = Pick<Config, 'dataDir' | 'mysql.url'>;

export function readyMsOf(role: RoleName, config: Places): number {
  const { dataDir } = config;
  if (role !== 'store')
    return (
      masterLimits.workerReadyMs + Math.ceil(registryBytes(config) / masterLimits.registryReadBytesPerMs)
    );
  const bytes = sizeOf(join(dataDir, 'jobs.db')) + sizeOf(join(dataDir, 'jobs.db-wal'));
  return masterLimits.storeReadyMs + Math.ceil(bytes / limits.storeCheckBytesPerMs);
}

/** Of a registry in MySQL the copy shows the size; at a first start there is no copy, and an old one may be much smaller. */
function registryBytes({ dataDir, 'mysql.url': mysql }: Places): number {
  const copy = sizeOf(join(dataDir, 'registry-copy.json'));
  const inMysql = mysql === '' ? copy : Math.max(copy, masterLimits.registryInMysqlBytes);
  return sizeOf(join(dataDir, 'registry.db')) + inMysql;
}

function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    // Whatever is wrong with the directory, dq-store says it better.
    return 0;
  }
}
