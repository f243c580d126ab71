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

function runIn(home: string, command: string, args: readonly string[]): void {
  // Without settings of this machine: its registry, prefix or cache would change the result.
  const own = Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'));
  const env = { ...Object.fromEntries(own), HOME: home, npm_config_cache: join(home, 'cache') };
  const run = spawnSync(command, args, { cwd: root, env, encoding: 'utf8', timeout: 240_000 });
  expect(run.status, run.stderr).toBe(0);
}

interface Component {
  readonly name: string;
  readonly version: string;
}
const readJson = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));

/** Everything that the package contains, in order. */
function wantedFiles(): string[] {
  const scripts = ['examples', 'grafana', 'logrotate', 'nginx', 'prometheus', 'supervisor', 'systemd'];
  const whole = [
    'sql',
    'src/clients',
    'src/manual',
    'src/proto',
    ...scripts.map((name) => `scripts/${name}`),
    'dist',
  ];
  const sqlite = 'node_modules/@photostructure/sqlite';
  const binaries = ['arm64', 'x64'].flatMap((cpu) =>
    ['glibc', 'musl'].map((libc) => `prebuilds/linux-${cpu}/@photostructure+sqlite.${libc}.node`),
  );
  return [
    ...['LICENSE', 'README.md', 'bin/dq', 'openapi.json', 'package.json', 'sbom.json'],
    ...whole
      .flatMap((part) => filesUnder(join(root, part)))
      .map((path) => path.slice(root.length + 1))
      // The code that V8 compiled from the bundle is of the Node that built it.
      .filter((path) => !/\.cjs\.\w+$/.test(path))
      // The client is compiled.
      .filter((path) => !/^src\/clients\/typescript\/(dist\/|tsconfig)/.test(path)),
    ...['index.d.ts', 'index.js'].map((name) => `src/clients/typescript/dist/${name}`),
    ...['LICENSE', 'README.md', 'dist/index.cjs', 'dist/index.mjs', 'package.json', ...binaries].map(
      (path) => `${sqlite}/${path}`,
    ),
    ...['LICENSE', 'README.md', 'index.js', 'node-gyp-build.js', 'package.json'].map(
      (path) => `node_modules/node-gyp-build/${path}`,
    ),
  ].sort();
}

const filesUnder = (directory: string) =>
  (existsSync(directory) ? readdirSync(directory, { recursive: true, withFileTypes: true }) : [])
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

it('package: installs offline without scripts, starts, and delivers a job', {
  timeout: 400_000,
}, async () => {
  const home = testDirectory();
  // Packs the build of this run: `npm run package` would replace dist/ under the other tests.
  const asText = join(root, 'scripts/docs/lua-as-text.mjs');
  const script = join(root, 'scripts/package.ts');
  runIn(home, process.execPath, ['--import', 'tsx', '--import', asText, script, '--to', home]);
  const { version, private: isPrivate } = readJson(join(root, 'package.json')) as {
    version: string;
    private?: boolean;
  };
  // A stray npm publish of the checkout fails.
  expect(isPrivate).toBe(true);
  const tarball = join(home, `dq-daemon-${version}.tgz`);
  expect(statSync(tarball).size).toBeLessThanOrEqual(12 * mebibyte);

  const prefix = join(home, 'prefix');
  const flags = ['--offline', '--ignore-scripts', '--omit=dev', '--prefix', prefix];
  runIn(home, 'npm', ['install', '-g', ...flags, tarball]);
  const installed = join(prefix, 'lib/node_modules/dq-daemon');
  const files = filesUnder(installed);
  const bytes = files.reduce((sum, path) => sum + statSync(path).size, 0);
  expect(bytes).toBeLessThanOrEqual(30 * mebibyte);
  const own = files.map((path) => path.slice(installed.length + 1));
  expect(own.sort()).toEqual(wantedFiles());
  for (const path of files) {
    const text = readFileSync(path, 'latin1');
    expect(text.includes(root) || text.includes(home), `${path} names a directory of this machine`).toBe(
      false,
    );
  }
  const notices = readFileSync(join(installed, 'dist/THIRD-PARTY-NOTICES'), 'utf8');
  expect(notices).toMatch(/^fastify \S+ \(MIT\)$/m);
  // The bill names each library whose code is in the bundle.
  const { components } = readJson(join(installed, 'sbom.json')) as { components: Component[] };
  const billed = components.map(({ name, version: its }) => `${name} ${its}`);
  const bundled = [...notices.matchAll(/^(\S+ \d\S+) \(.*\)$/gm)].map(([, library = '']) => library);
  expect(bundled.filter((library) => !billed.includes(library))).toEqual([]);
  expect(billed.filter((library) => /^(vitest|esbuild|typescript) /.test(library))).toEqual([]);

  const launcher = join(prefix, 'bin/dq');
  const dq = (...args: string[]) => runDq(args, { launcher, cwd: home });
  const shown = JSON.parse((await dq('version', '--json')).stdout);
  expect(shown).toMatchObject({ version, node: process.version });
  expect((await dq('help')).code).toBe(0);

  const sink = await startSink();
  const daemon = await startDaemon({ launcher });
  const topic = await daemon.api('POST', '/v1/topics', { topic: 'a', callbackUrl: `${sink.url}/a` });
  expect(topic.status).toBe(201);
  const described = await daemon.api('GET', '/openapi.json');
  expect(readJson(join(installed, 'openapi.json'))).toEqual(described.body);
  expect((await daemon.push('a', '{"order":1}')).status).toBe(201);
  await until('the job is delivered', () => sink.arrivals.length === 1);
  expect(sink.arrivals[0]?.body.toString()).toBe('{"order":1}');
  expect(await daemon.stop()).toBe(0);
});
