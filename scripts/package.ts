// Writes dist.package/, what the npm package contains, and packs it: dq-daemon-VERSION.tgz, in this directory
// or in --to DIR. `npm run package` builds first.
// Why the package has a manifest of its own: package.json lists the libraries of the bundle as dependencies,
// so that `npm audit --omit=dev` and `npm sbom --omit=dev` know them. An installation needs none: only
// the native library is outside of the bundle, and comes with the package, without what its build needs.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { describeApi } from './docs/http.ts';

const root = join(import.meta.dirname, '..');
export const packageDirectory = join(root, 'dist.package');

const native = '@photostructure/sqlite';
const loader = 'node-gyp-build';
/** Of scripts/: what belongs to an installation. */
const scripts = ['systemd', 'nginx', 'logrotate', 'supervisor', 'examples', 'grafana', 'prometheus'];

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly [member: string]: unknown;
}
const readManifest = (path: string) =>
  JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8')) as Manifest;
const manifest = readManifest('.');

const { values: given } = parseArgs({ options: { to: { type: 'string', default: '.' } } });
rmSync(packageDirectory, { recursive: true, force: true });
copySources([
  ...['bin', 'sql', 'src/clients', 'src/manual', 'src/proto', 'LICENSE', 'README.md'],
  ...scripts.map((name) => `scripts/${name}`),
]);
// The code that V8 compiled is of this machine's Node.
copy('dist', (path) => !/\.cjs\.\w+$/.test(path));
copyNative();
compileClient();
writeJson('package.json', ownManifest());
writeJson('openapi.json', await describeApi({ version: manifest.version, ofConsole: false }));
writeJson('sbom.json', bill());
run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', resolve(given.to)], {
  cwd: packageDirectory,
  stdio: 'inherit',
});

/** Of a checkout what git knows: other files there are of its user, and may have passwords. */
function copySources(paths: readonly string[]): void {
  const { stdout } = spawnSync('git', ['ls-files', '-z', '--', ...paths], { cwd: root, encoding: 'utf8' });
  const known = (stdout ?? '').split('\0').filter((path) => path !== '');
  for (const path of known.length > 0 ? known : paths) copy(path);
}

function copy(path: string, filter: (path: string) => boolean = () => true): void {
  cpSync(join(root, path), join(packageDirectory, path), { recursive: true, filter });
}

function writeJson(path: string, value: unknown): void {
  const target = join(packageDirectory, path);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, `${JSON.stringify(value, null, 2)}\n`);
}

/** An installation has no compiler: npm installs and packs its client as it is. */
function compileClient(): void {
  const path = 'src/clients/typescript';
  const target = join(packageDirectory, path);
  run(join(root, 'node_modules/.bin/tsc'), ['-p', path, '--outDir', join(target, 'dist')], { cwd: root });
  const { scripts: _, ...rest } = readManifest(path);
  writeJson(`${path}/package.json`, rest);
  rmSync(join(target, 'tsconfig.json'));
}

/** The library, its binaries for Linux, and the loader that chooses one of them. */
function copyNative(): void {
  const path = `node_modules/${native}`;
  for (const part of ['LICENSE', 'README.md', 'dist/index.cjs', 'dist/index.mjs']) copy(`${path}/${part}`);
  for (const cpu of cpus()) copy(`${path}/prebuilds/linux-${cpu}`);
  for (const file of ['LICENSE', 'README.md', 'index.js', 'node-gyp-build.js', 'package.json'])
    copy(`node_modules/${loader}/${file}`);
  const { name, version, description, homepage, repository, license, main, module, exports, engines } =
    readManifest(path);
  writeJson(`${path}/package.json`, {
    ...{ name, version, description, homepage, repository, license, main, module, exports, engines },
    // The library also names the headers that its build needs, and a script that would build it.
    dependencies: { [loader]: readManifest(path).dependencies[loader] },
  });
}

function cpus(): readonly string[] {
  return readManifest(`node_modules/${native}`)['cpu'] as string[];
}

function ownManifest(): unknown {
  const { name, version, description, keywords, license, type, bin, engines, os } = manifest;
  return {
    ...{ name, version, description, keywords, license, ...addresses(), type, bin, engines, os },
    cpu: cpus(),
    dependencies: { [native]: readManifest(`node_modules/${native}`).version },
    bundleDependencies: [native],
  };
}

/** Where the package comes from: the remote `origin` of this checkout, if it has a host. Without a login. */
function addresses(): Readonly<Record<string, unknown>> {
  const { stdout = '' } = spawnSync('git', ['remote', 'get-url', 'origin'], { cwd: root, encoding: 'utf8' });
  const [, host, path] =
    /^(?:(?:https|ssh):\/\/(?:[^@/]+@)?|git@)([\w.-]+\.\w+)(?::\d+)?[:/](.+?)(?:\.git)?\/?$/.exec(
      stdout.trim(),
    ) ?? [];
  if (host === undefined) return {};
  const url = `https://${host}/${path}`;
  return {
    homepage: `${url}#readme`,
    repository: { type: 'git', url: `git+${url}.git` },
    bugs: { url: `${url}/issues` },
  };
}

/** CycloneDX: all libraries that run, as package-lock.json has them. `npm sbom --omit=dev` of this checkout
 *  also omits those that a tool needs besides dq. */
function bill(): unknown {
  const cwd = mkdtempSync(join(tmpdir(), 'dq-sbom-'));
  try {
    const { name, version, description, license, dependencies, overrides } = manifest;
    writeFileSync(
      join(cwd, 'package.json'),
      JSON.stringify({ name, version, description, license, dependencies, overrides }),
    );
    cpSync(join(root, 'package-lock.json'), join(cwd, 'package-lock.json'));
    // The lock file knows all that is left: nothing is looked up.
    run('npm', ['install', '--package-lock-only', '--ignore-scripts', '--offline', '--no-audit'], { cwd });
    const options = { cwd, maxBuffer: 16 * 1024 * 1024 };
    const bom = JSON.parse(
      run('npm', ['sbom', '--package-lock-only', '--sbom-format=cyclonedx'], options),
    ) as {
      metadata: { component: Record<string, unknown> };
    };
    // npm names the component by the directory.
    Object.assign(bom.metadata.component, { name, type: 'application' });
    return bom;
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

function run(command: string, args: readonly string[], options: Parameters<typeof spawnSync>[2]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { ...options, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} fails: ${stderr}`);
  return stdout as string;
}
