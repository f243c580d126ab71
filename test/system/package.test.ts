// Tests the published package: complete, within its sizes, and running from an empty prefix without a
// network.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { runDq } from '../support/run-dq.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

const root = join(import.meta.dirname, '../..');
const mebibyte = 1024 * 1024;

function npm(args: readonly string[], home: string): string {
  // Without settings of this machine: its registry or prefix would change the result.
  const own = Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'));
  const env = { ...Object.fromEntries(own), HOME: home, npm_config_cache: join(home, 'cache') };
  const run = spawnSync('npm', args, { cwd: root, env, encoding: 'utf8', timeout: 240_000 });
  expect(run.status, run.stderr).toBe(0);
  return run.stdout;
}

const filesUnder = (directory: string) =>
  (existsSync(directory) ? readdirSync(directory, { recursive: true, withFileTypes: true }) : [])
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

it('package: installs offline without scripts, starts, and delivers a job', {
  timeout: 400_000,
}, async () => {
  const home = testDirectory();
  // Packs the build of this run: npm's own build step would replace dist/ under the other tests.
  npm(['pack', '--ignore-scripts', '--pack-destination', home], home);
  const { version, private: isPrivate } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string;
    private?: boolean;
  };
  // A stray npm publish fails. A release to a registry removes it.
  expect(isPrivate).toBe(true);
  const tarball = join(home, `dq-daemon-${version}.tgz`);
  expect(statSync(tarball).size).toBeLessThanOrEqual(20 * mebibyte);

  const prefix = join(home, 'prefix');
  const flags = ['--offline', '--ignore-scripts', '--omit=dev', '--prefix', prefix];
  npm(['install', '-g', ...flags, tarball], home);
  const installed = join(prefix, 'lib/node_modules/dq-daemon');
  const files = filesUnder(installed);
  const bytes = files.reduce((sum, path) => sum + statSync(path).size, 0);
  expect(bytes).toBeLessThanOrEqual(60 * mebibyte);
  const own = files.map((path) => path.slice(installed.length + 1));
  for (const wanted of [
    'LICENSE',
    'README.md',
    'dist/THIRD-PARTY-NOTICES',
    'sql/mysql/dq.sql',
    'scripts/systemd/dq.service',
    'scripts/nginx/dq.conf',
    'scripts/logrotate/dq',
    'scripts/supervisor/dq.conf',
    'scripts/prometheus/dq.rules.yaml',
    'scripts/grafana/dq.json',
    ...['src/manual', 'src/proto']
      .flatMap((part) => filesUnder(join(root, part)))
      .map((path) => path.slice(root.length + 1)),
  ])
    expect(own).toContain(wanted);
  expect(own.filter((path) => /^(test|src\/(?!(?:manual|proto)\/))|^dist\/.*\.map$/.test(path))).toEqual([]);
  const notices = readFileSync(join(installed, 'dist/THIRD-PARTY-NOTICES'), 'utf8');
  expect(notices).toMatch(/^fastify \S+ \(MIT\)$/m);

  const launcher = join(prefix, 'bin/dq');
  const dq = (...args: string[]) => runDq(args, { launcher, cwd: home });
  const shown = JSON.parse((await dq('version', '--json')).stdout);
  expect(shown).toMatchObject({ version, node: process.version });
  expect((await dq('help')).code).toBe(0);

  const sink = await startSink();
  const daemon = await startDaemon({ launcher });
  const topic = await daemon.api('POST', '/v1/topics', { topic: 'a', callbackUrl: `${sink.url}/a` });
  expect(topic.status).toBe(201);
  expect((await daemon.push('a', '{"order":1}')).status).toBe(201);
  await until('the job is delivered', () => sink.arrivals.length === 1);
  expect(sink.arrivals[0]?.body.toString()).toBe('{"order":1}');
  expect(await daemon.stop()).toBe(0);
});
