// One daemon on the embedded store, which all files of a run share. The process of the run starts it when a
// file first asks, and ends it with the run (services-setup.ts).
// Invariant: every test takes topics and schedules with its own prefix, makes no token, and kills, stops and
// reloads no process: others work beside it.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import {
  type Launched,
  launchDaemon,
  type Place,
  type RunningDaemon,
  runningDaemon,
} from './daemon-process.ts';

const variable = 'DQ_TEST_DAEMON';

/** It dies with the run, also where that is killed. */
const bound = ['setpriv', '--pdeathsig', 'KILL'];

const options = () => ({
  ...(spawnSync('setpriv', ['--version']).status === 0 && { prefix: bound }),
  config: {
    // No failed job is called again while a test looks, unless its topic has a backoff.
    retry: { unit: '1h' },
    brokers: ['main=stomp+stomp://u:s3cret@127.0.0.1:2'],
  },
});

/** Called once, by the process of the run. */
export async function offerDaemon(directory: string): Promise<() => Promise<void>> {
  let starting: Promise<Launched> | null = null;
  const server = createServer(async (socket) => {
    socket.on('error', () => {});
    try {
      starting ??= launchDaemon({ ...options(), directory: join(directory, 'daemon') });
      const { url, pid, directory: own, dataDir, logDir } = await starting;
      socket.end(JSON.stringify({ url, pid, directory: own, dataDir, logDir } satisfies Place));
    } catch (error) {
      socket.end(JSON.stringify({ failed: String(error) }));
    }
  });
  const path = join(directory, 'daemon.sock');
  await once(server.listen(path), 'listening');
  server.unref();
  process.env[variable] = path;
  return async () => {
    server.close();
    await (await starting?.catch(() => null))?.remove();
  };
}

export async function sharedDaemon(): Promise<RunningDaemon> {
  const path = process.env[variable];
  if (path === undefined) throw new Error(`${variable} is not set: not run by vitest.config.ts`);
  const socket = connect(path);
  let text = '';
  for await (const chunk of socket.setEncoding('utf8')) text += chunk;
  const place = JSON.parse(text) as Place & { readonly failed?: string };
  if (place.failed !== undefined) throw new Error(place.failed);
  return runningDaemon(place);
}
