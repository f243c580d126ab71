// Sends a command to the running master over the control socket and reads its answers.
// Invariant: files alone prove nothing: a record without an answering socket was left by a killed master.

import { connect, type Socket } from 'node:net';
import { clearTimeout, setTimeout } from '../../runtime/time.ts';
import { type MasterRecord, readMasterRecord } from '../data/run-record.ts';
import { masterLimits } from '../limits.ts';
import type { ControlAnswer, ControlRequest } from './control-protocol.ts';

export interface Answered {
  readonly master: MasterRecord;
  readonly answers: readonly ControlAnswer[];
  /** exit code in the last line; null = the connection ended without one */
  readonly exit: number | null;
}

/** null = no daemon runs on this data directory. Rejects if one runs and does not answer within waitMs.
 *  `onAnswer` is called with each answer as it arrives. */
export async function askMaster(
  dataDir: string,
  request: ControlRequest,
  waitMs: number = masterLimits.controlCallMs,
  onAnswer: (answer: ControlAnswer) => void = () => {},
): Promise<Answered | null> {
  const master = readMasterRecord(dataDir);
  if (master === null) return null;
  const socket = await open(master.controlSocket);
  if (socket === null) return null;
  const answers: ControlAnswer[] = [];
  await exchange(socket, `${JSON.stringify(request)}\n`, waitMs, (line) => {
    const answer = JSON.parse(line) as ControlAnswer;
    answers.push(answer);
    onAnswer(answer);
  });
  const last = answers.at(-1);
  return { master, answers, exit: last !== undefined && 'done' in last ? last.exit : null };
}

function open(path: string): Promise<Socket | null> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once('connect', () => resolve(socket));
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') resolve(null);
      else reject(error);
    });
  });
}

/** Calls onLine for every line until the other end closes. */
function exchange(
  socket: Socket,
  request: string,
  waitMs: number,
  onLine: (line: string) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`the daemon did not answer within ${Math.round(waitMs / 1000)} s`));
    }, waitMs);
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => {
      const lines = (text + chunk).split('\n');
      // The rest is an incomplete line, or one that was cut off.
      text = lines.pop() ?? '';
      for (const line of lines) onLine(line);
    });
    // A reset is treated like a close: the last line counts.
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      resolve();
    });
    socket.write(request);
  });
}
