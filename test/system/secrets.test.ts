// Tests secrets in a real daemon: which secret signs, and that no file has a header, a secret or a token
// in the clear. What answers and commands show: console-secrets.test.ts.
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { filesUnder } from '../support/directory.ts';
import { commandsOf, runDq } from '../support/run-dq.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { type Arrival, startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const isSignedBy = (secret: string, { headers, body }: Arrival) => {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
};

it('rotation: both secrets sign callbacks', async () => {
  const daemon = await sharedDaemon();
  const dq = commandsOf(daemon);
  const sink = await startSink();
  const topic = 'rotated';
  const made = (await dq(['topic', 'add', topic, '--callback', sink.url])).stdout.trim();
  await daemon.push(topic, '{"n":1}');
  await until('the first callback arrived', () => sink.arrivals.length === 1);
  expect(isSignedBy(made, sink.arrivals[0] as Arrival)).toBe(true);

  const turned = await dq(['topic', 'secret', topic]);
  expect(turned.code, turned.stderr).toBe(0);
  expect(turned.stdout).toMatch(/^whsec_\S+\n$/);
  expect(turned.stderr).toMatch(/the old one still signs until \d{4}-/);
  const next = turned.stdout.trim();
  const twice = await until('a callback with two signatures', async () => {
    await daemon.push(topic, '{"n":3}');
    return sink.arrivals.find(({ headers }) => String(headers['webhook-signature']).includes(' '));
  });
  expect(String(twice.headers['webhook-signature'])).toMatch(/^v1,\S+ v1,\S+$/);
  for (const secret of [made, next]) expect(isSignedBy(secret, twice)).toBe(true);
  const given = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;
  expect(isSignedBy(given, twice)).toBe(false);
  expect((await dq(['topic', 'secret', topic, '--secret', given])).stdout.trim()).toBe(given);
});

it('headers: encrypted on disk, masked below admin; a missing or different key rejects a start', async () => {
  const daemon = await startDaemon();
  const sink = await startSink();
  const dq = (args: readonly string[], more: Record<string, string> = {}) =>
    runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir, ...more } });
  const value = 'Bearer geheim-im-kopf';
  const added = await dq([
    'topic',
    'add',
    'a',
    '--callback',
    sink.url,
    '--header',
    `authorization: ${value}`,
  ]);
  await daemon.push('a', '1');
  await until('it arrived', () => sink.arrivals.length === 1);
  const set = await dq(['topic', 'set', 'a', '--header', 'authorization: ***', '--header', 'x-b: c']);
  expect(set.code, set.stderr).toBe(0);
  const wrong = await dq(['topic', 'set', 'a', '--header', 'x-c: ***']);
  expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('x-c')]);
  const reader = (await dq(['token', 'add', 'r', '--scope', 'read'])).stdout.trim();
  const headersSeen = async (token?: string) => {
    const { stdout } = await dq(
      ['topic', 'get', 'a', '--json', ...(token === undefined ? [] : ['--url', daemon.url])],
      token === undefined ? {} : { DQ_TOKEN: token },
    );
    return JSON.parse(stdout).headers;
  };
  expect(await headersSeen()).toEqual({ authorization: value, 'x-b': 'c' });
  expect(await headersSeen(reader)).toEqual({ authorization: '***', 'x-b': '***' });
  const hidden = ['geheim-im-kopf', ...[added.stdout, reader].map((one) => one.trim().slice(-32))];
  const running = filesUnder(daemon.dataDir, daemon.logDir);
  expect(await daemon.stop()).toBe(0);
  for (const { path, text } of [...running, ...filesUnder(daemon.dataDir, daemon.logDir)])
    expect([path, hidden.filter((one) => text.includes(one))]).toEqual([path, []]);
  expect(daemon.output()).not.toContain('geheim-im-kopf');
  expect(sink.arrivals[0]?.headers['authorization']).toBe(value);

  // A missing or different key file rejects a start with its remedy.
  const key = join(daemon.dataDir, 'secret.key');
  const start = () =>
    runDq(['start', '--port', '0', '--data-dir', daemon.dataDir], { cwd: daemon.directory });
  const right = readFileSync(key);
  rmSync(key);
  expect(await start()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^dq: the key file \S+ is missing, .*restore it from a backup/),
  });
  expect(readdirSync(daemon.dataDir)).not.toContain('secret.key');
  writeFileSync(key, `v1:${Buffer.alloc(32, 1).toString('base64')}\n`);
  expect(await start()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/does not fit the secrets/),
  });
  writeFileSync(key, right);
  chmodSync(key, 0o644);
  const again = await startDaemon({ directory: daemon.directory });
  const read = { headers: { authorization: `Bearer ${reader}` } };
  expect((await fetch(`${again.url}/v1/topics/a`, read)).status).toBe(200);
  await until('the warning is logged', () =>
    again
      .log('notice')
      .some(({ message }) => String(message).includes('is accessible to other users (mode 0644)')),
  );
});
