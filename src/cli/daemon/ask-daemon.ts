// Sends a request to the master through its control socket, for commands that work without the HTTP API.
// Exit codes distinguish a daemon that does not run from one that does not answer.

import type { Answered } from '../../master/control/control-client.ts';
import { askMaster } from '../../master/control/control-client.ts';
import type { ControlAnswer, ControlRequest } from '../../master/control/control-protocol.ts';
import { Exit } from '../exit.ts';
import { unreadable } from './find-daemon.ts';

/** Throws Exit. `waitMs`: for the whole answer, default masterLimits.controlCallMs. `onAnswer` receives each
 *  line as it comes. */
export async function askDaemon(
  dataDir: string,
  request: ControlRequest,
  waitMs?: number,
  onAnswer?: (answer: ControlAnswer) => void,
): Promise<Answered> {
  const answered = await askMaster(dataDir, request, waitMs, onAnswer).catch((error: unknown) => {
    throw unreadable(dataDir, error);
  });
  if (answered === null) throw new Exit('notRunning', `no daemon is running on ${dataDir}`);
  return answered;
}
