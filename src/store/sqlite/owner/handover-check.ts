// What a dq-store that is to follow another one looks at while that one serves. Opens nothing for writing and takes no lock:
// what is found here must not disturb the one that works. A difference in what is on the disk or on the socket cannot be
// bridged by a reload, because the workers of both versions work side by side for a while.

import { StoreError } from '../../../ports/job-store.ts';
import type { StoreConnection } from '../client/client.ts';
import { layoutVersion } from '../file/schema.ts';
import { layoutOnDisk } from '../file/store-file.ts';

/** One sentence; null = it can be followed, and `served` is connected. */
export async function whyNotAfter(
  served: Pick<StoreConnection, 'start'>,
  path: string,
): Promise<string | null> {
  const layout = layoutOnDisk(path);
  if (layout !== layoutVersion)
    return `${path} has layout ${layout ?? 'none'}, this version has ${layoutVersion}: needs \`dq restart\``;
  try {
    await served.start();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.failure.code === 'protocol')
      return 'the dq-store that runs speaks another protocol than this version: needs `dq restart`';
    return 'the dq-store that runs does not answer';
  }
  return null;
}
