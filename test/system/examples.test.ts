// Tests scripts/examples: each receiver accepts a signed job and rejects others. Missing languages are
// skipped.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it, onTestFinished } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { freePorts } from '../../scripts/services/free-port.ts';
import { environment } from '../support/daemon.ts';
import { until } from '../support/until.ts';

const examples = join(import.meta.dirname, '../../scripts/examples');
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const body = '{"order":4711,"title":"关闭"}';

interface Receiver {
  readonly file: string;
  readonly command: (port: number) => readonly [string, ...string[]];
  readonly missing: () => Promise<string | null>;
}

const has = (program: string, flag: string) => async () =>
  spawnSync(program, [flag]).status === 0 ? null : `no ${program} here`;
const receivers: readonly Receiver[] = [
  {
    file: 'receiver-node.mjs',
    command: () => [process.execPath, 'receiver-node.mjs'],
    missing: async () => null,
  },
  {
    file: 'receiver-fastify.mjs',
    command: () => [process.execPath, 'receiver-fastify.mjs'],
    missing: async () => null,
  },
  { file: 'receiver.py', command: () => ['python3', 'receiver.py'], missing: has('python3', '--version') },
  {
    file: 'receiver.php',
    command: (port) => ['php', '-S', `127.0.0.1:${port}`, 'receiver.php'],
    missing: () => whyNotInstalled('php'),
  },
  { file: 'receiver.go', command: () => ['go', 'run', 'receiver.go'], missing: has('go', 'version') },
];

async function post(url: string, at: number, signer: string, text = body): Promise<number | null> {
  const headers = {
    'content-type': 'application/json',
    'dq-topic': 't',
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(at / 1_000)),
    'webhook-signature': new Webhook(signer).sign('msg_1', new Date(at), text),
  };
  const reply = await fetch(url, { method: 'POST', headers, body }).catch(() => null);
  return reply?.status ?? null;
}

// An installation stops after five minutes.
describe('examples', { timeout: 330_000 }, () => {
  it.for(receivers)('$file: accepts signed callbacks only', async ({ command, missing }, { skip }) => {
    const why = await missing();
    if (why !== null) skip(why);
    const [port = 0] = await freePorts(1);
    const [program, ...args] = command(port);
    const child = spawn(program, args, {
      cwd: examples,
      env: environment({ WEBHOOK_SECRET: secret, PORT: String(port) }),
      stdio: 'ignore',
      // `go run` has its own child
      detached: true,
    });
    const exited = once(child, 'exit');
    onTestFinished(async () => {
      if (child.exitCode === null) process.kill(-(child.pid as number), 'SIGKILL');
      await exited;
    });
    const url = `http://127.0.0.1:${port}/close`;
    const now = Date.now();
    // `go run` compiles first.
    await until('it accepts a signed callback', async () => (await post(url, now, secret)) === 200);
    const other = `whsec_${Buffer.alloc(24, 1).toString('base64')}`;
    expect(await post(url, now, other)).toBe(401);
    expect(await post(url, now, secret, 'another body')).toBe(401);
    expect(await post(url, now - 400_000, secret)).toBe(401);
  });

  it('each has at most 60 lines', () => {
    for (const name of readdirSync(examples))
      expect(readFileSync(join(examples, name), 'utf8').split('\n').length, name).toBeLessThanOrEqual(61);
  });
});
