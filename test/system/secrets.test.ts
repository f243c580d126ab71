// Tests secrets and tokens in a real daemon: which secret signs, and that dq shows each one once and stores
// none in the clear.
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { type Arrival, startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const isSignedBy = (secret: string, { headers, body }: Arrival) => {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
};

function filesUnder(...directories: readonly string[]): { path: string; bytes: string }[] {
  return directories.flatMap((directory) =>
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => ({ path, bytes: readFileSync(path, 'latin1') })),
  );
}

it('rotation: both secrets sign callbacks; no file shows a secret or token', async () => {
  const daemon = await startDaemon({ config: { 'retry.unit': '10ms' } });
  const dq = (args: readonly string[]) => runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir } });
  const sink = await startSink();
  const failing = await startSink(status(500, {}, 'no'));

  const made = (await dq(['topic', 'add', 'a', '--callback', sink.url])).stdout.trim();
  const dying = (
    await dq(['topic', 'add', 'b', '--callback', failing.url, '--max-attempts', '2'])
  ).stdout.trim();
  await daemon.push('a', '{"n":1}');
  await daemon.push('b', '{"n":2}', { id: 'dies' });
  await until('the first callback arrived', () => sink.arrivals.length === 1);
  expect(isSignedBy(made, sink.arrivals[0] as Arrival)).toBe(true);

  const turned = await dq(['topic', 'secret', 'a']);
  expect(turned.code, turned.stderr).toBe(0);
  expect(turned.stdout).toMatch(/^whsec_\S+\n$/);
  expect(turned.stderr).toMatch(/the old one still signs until \d{4}-/);
  const next = turned.stdout.trim();
  const given = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;
  expect((await dq(['topic', 'secret', 'b', '--secret', given])).stdout.trim()).toBe(given);
  const twice = await until(
    'a callback with two signatures',
    async () => {
      await daemon.push('a', '{"n":3}');
      return sink.arrivals.find(({ headers }) => String(headers['webhook-signature']).includes(' '));
    },
    { everyMs: 50 },
  );
  expect(String(twice.headers['webhook-signature'])).toMatch(/^v1,\S+ v1,\S+$/);
  for (const secret of [made, next]) expect(isSignedBy(secret, twice)).toBe(true);
  expect(isSignedBy(given, twice)).toBe(false);
  await until('the other job is dead', async () => {
    const { body } = await daemon.api('GET', '/v1/dead');
    return body.items.length === 1;
  });

  const token = (await dq(['token', 'add', 'me', '--scope', 'admin'])).stdout.trim();
  const hidden = [made, dying, next, given, token].flatMap((text) => [
    text,
    // The random part can contain `_`.
    text.replace(/^(whsec|dqk_[0-9a-f]{12})_/, ''),
  ]);
  const authorized = { headers: { authorization: `Bearer ${token}` } };
  const api = (await (await fetch(`${daemon.url}/openapi.json`, authorized)).json()) as { paths: object };
  const answers: { readonly path: string; readonly bytes: string }[] = [];
  for (const path of Object.entries(api.paths).flatMap(([path, methods]) => ('get' in methods ? [path] : [])))
    for (const topic of ['a', 'b']) {
      const url = daemon.url + path.replace('{topic}', topic).replace('{id}', 'dies');
      answers.push({ path, bytes: await (await fetch(url, authorized)).text() });
    }
  expect(answers.length).toBeGreaterThan(10);
  for (const args of [
    ...[
      ['topic', 'get', 'a'],
      ['topic', 'ls'],
      ['get', 'b', 'dies'],
      ['dead', 'ls'],
      ['token', 'ls'],
      ['status'],
    ],
    ...[
      ['topic', 'get', 'b', '--json'],
      ['config', 'show'],
    ],
  ]) {
    const { stdout, stderr } = await dq(args);
    answers.push({ path: `dq ${args.join(' ')}`, bytes: stdout + stderr });
  }
  const seen = () => [
    ...answers,
    ...filesUnder(daemon.dataDir, daemon.logDir),
    { path: '-', bytes: daemon.output() },
  ];
  const running = seen();
  expect(await daemon.stop()).toBe(0);
  for (const { path, bytes } of [...running, ...seen()])
    for (const text of hidden) expect(bytes.includes(text), `${path} shows ${text.slice(0, 8)}…`).toBe(false);
});

it('headers: encrypted on disk, masked below admin; a missing or different key rejects a start', async () => {
  const daemon = await startDaemon();
  const sink = await startSink();
  const dq = (args: readonly string[], more: Record<string, string> = {}) =>
    runDq(args, { env: { DQ_DATA_DIR: daemon.dataDir, ...more } });
  const value = 'Bearer geheim-im-kopf';
  await dq(['topic', 'add', 'a', '--callback', sink.url, '--header', `authorization: ${value}`]);
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
  const running = filesUnder(daemon.dataDir, daemon.logDir);
  expect(await daemon.stop()).toBe(0);
  for (const { path, bytes } of [...running, ...filesUnder(daemon.dataDir, daemon.logDir)])
    expect(bytes.includes('geheim-im-kopf'), path).toBe(false);
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
