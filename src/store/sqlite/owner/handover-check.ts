// Checks whether a new dq-store can follow the running one. Opens nothing for writing and takes no lock,
// because the old one still serves. Workers of both versions run side by side during a reload, so they need
// the same file layout and socket protocol.

import { StoreError } from '../../../ports/store-error.ts';
import type { StoreConnection } from '../client/client.ts';
import { layoutVersion } from '../file/schema.ts';
import { layoutOnDisk } from '../file/store-file.ts';

/** One sentence; null: the handover is possible, and `running` is connected. */
export async function whyNoHandover(
  running: Pick<StoreConnection, 'start'>,
  path: string,
): Promise<string | null> {
  const layout = layoutOnDisk(path);
  if (layout !== layoutVersion)
    return `${path} has layout ${layout ?? 'none'}, this version has ${layoutVersion}: needs \`dq restart\``;
  try {
    await running.start();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.failure.code === 'protocol')
      return 'the running dq-store has another protocol than this version: needs `dq restart`';
    return 'the running dq-store does not answer';
  }
  return null;
}
