// A question to the daemon itself, through its control socket: for the commands that must work while the HTTP API does not.
// Turns silence into an exit code: nobody there is another thing than somebody who does not answer.

import type { Answered } from '../../master/control/control-client.ts';
import { askMaster } from '../../master/control/control-client.ts';
import type { ControlAnswer, ControlRequest } from '../../master/control/control-protocol.ts';
import { Exit } from '../exit.ts';
import { unreadable } from './find-daemon.ts';

/** Throws Exit. `waitMs`: for the whole answer, masterLimits.controlCallMs unless given. `onAnswer`: told each line as it comes. */
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
