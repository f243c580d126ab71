// Bundles src into dist/: one entry for the command line (`dq start` is the master), one for the workers, and
// chunks that both share; the console's page into dist/console. .sql, .lua and .proto files become text.
// Writes dist/version and dist/THIRD-PARTY-NOTICES.
// A finished build replaces dist/ by renames: a daemon that starts meanwhile never sees half of one.
// Why a bundle: at each reload a worker imports its libraries in 100 ms from a bundle, in 500 ms from loose
// modules. load.cjs loads its files, with the code that V8 compiled from them here.
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Metafile, type PluginBuild, transform } from 'esbuild';
import { smallYoungSpace } from '../src/master/limits.ts';
import { buildConsole } from './build-console.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const next = join(root, `dist.${process.pid}`);
const target = 'node20.19';
const { version, bundleDependencies } = readPackage(root) as Package & { bundleDependencies: string[] };

const { metafile, outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: { cli: 'src/cli/main.ts', worker: 'src/worker.ts' },
  outdir: join(next, 'chunks'),
  outExtension: { '.js': '.cjs' },
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  metafile: true,
  write: false,
  loader: { '.sql': 'text', '.lua': 'text', '.proto': 'text' },
  // Native modules find their prebuilt binary beside their own files; the package has them. supports-color
  // belongs to tools: debug would colour its lines with it, where one has installed it.
  external: [...bundleDependencies, 'supports-color'],
  define: {
    __DQ_VERSION__: JSON.stringify(version),
    __DQ_COMMIT__: JSON.stringify(currentCommit()),
    // Of the log library: without it every process loads the names of colours of a debugger.
    'process.env.NODE_ENV': '"production"',
  },
  plugins: [{ name: 'parts-of-undici', setup: bundlePartsOfUndici }],
  logLevel: 'warning',
});
mkdirSync(join(next, 'chunks'), { recursive: true });
for (const { path, text } of outputFiles) writeFileSync(path, await asCommonJs(text));
cpSync(join(root, 'scripts/load.cjs'), join(next, 'load.cjs'));
writeFileSync(join(next, 'cli.js'), entryOf('src/cli/main.ts'));
writeFileSync(join(next, 'worker.js'), entryOf('src/worker.ts'));
for (const flags of [[], smallYoungSpace]) keepCode(flags);

const page = await buildConsole(root, join(next, 'console'));
writeFileSync(join(next, 'version'), `${version}\n`);
writeFileSync(
  join(next, 'THIRD-PARTY-NOTICES'),
  renderNotices([...new Set([...packagesIn(metafile), ...packagesIn(page)])].sort()),
);
const current = join(root, 'dist');
const old = join(root, `dist.old.${process.pid}`);
try {
  renameSync(current, old);
} catch (error) {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
}
renameSync(next, current);
rmSync(old, { recursive: true, force: true });

/** A notifier calls by the clients of undici alone. All of it, with fetch, mocks and caches, costs a process
 *  35 ms and 4 MiB more. */
function bundlePartsOfUndici({ onResolve, onLoad }: PluginBuild): void {
  const parts = {
    Client: 'dispatcher/client',
    Pool: 'dispatcher/pool',
    buildConnector: 'core/connect',
    errors: 'core/errors',
  };
  const contents = Object.entries(parts)
    .map(([name, path]) => `export { default as ${name} } from 'undici/lib/${path}.js';`)
    .join('\n');
  onResolve({ filter: /^undici$/ }, ({ importer, path }) =>
    dirname(importer).endsWith('/src/notifier') ? { path, namespace: 'parts' } : undefined,
  );
  onLoad({ filter: /./, namespace: 'parts' }, () => ({ contents, resolveDir: root }));
}

/** esbuild splits ES modules only, and V8 keeps compiled code of scripts only. */
async function asCommonJs(text: string): Promise<string> {
  const { code } = await transform(text, {
    format: 'cjs',
    platform: 'node',
    target,
    // import() becomes a require() of its moment.
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': '__url' },
  });
  return code;
}

/** The name of the file has the digest of the bundle: reload.ts of the master compares these entries. */
function entryOf(source: string): string {
  const [path = ''] =
    Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === source) ?? [];
  return `import { createRequire } from 'node:module';\ncreateRequire(import.meta.url)('./load.cjs').load('${basename(path)}');\n`;
}

/** Entries run their commands when they are loaded: their code is compiled at each start. */
function keepCode(flags: readonly string[]): void {
  const isEntry = (path: string) =>
    /^src\/(cli\/main|worker)\.ts$/.test(metafile.outputs[path]?.entryPoint ?? '');
  const parts = Object.keys(metafile.outputs).filter((path) => !isEntry(path));
  const names = JSON.stringify(parts.map((path) => basename(path)));
  const script = `require(${JSON.stringify(join(next, 'load.cjs'))}).keepCode(${names})`;
  const { status, stderr } = spawnSync(process.execPath, [...flags, '-e', script], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`a file of the bundle does not load: ${stderr}`);
}

interface Package {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

function readPackage(directory: string): Package {
  return JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Package;
}

/** A checkout's HEAD. The root itself must be a checkout: one above it belongs to another project. */
function currentCommit(): string {
  if (!existsSync(join(root, '.git'))) return 'unknown';
  const git = (...args: string[]) =>
    spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout?.trim() ?? '';
  const head = git('rev-parse', 'HEAD');
  if (head === '') return 'unknown';
  return git('status', '--porcelain', '--untracked-files=no') === '' ? head : `${head}-dirty`;
}

/** Directories of all libraries with code in the bundle. */
function packagesIn({ inputs }: Metafile): readonly string[] {
  const found = Object.keys(inputs).flatMap(
    (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0] ?? [],
  );
  return [...new Set(found)].sort();
}

/** Fails for a library without a licence, and for one of the tools, which `npm audit --omit=dev` and the SBOM
 *  of the package would not know. */
function renderNotices(directories: readonly string[]): string {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { readonly dev?: boolean }>;
  };
  const notices = directories.map((path) => {
    if (packages[path]?.dev !== undefined)
      throw new Error(`dist/ contains code of ${path}: package.json must have it in dependencies`);
    const directory = join(root, path);
    const { name, version, license } = readPackage(directory);
    const files = readdirSync(directory).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file));
    if (license === undefined && files.length === 0) throw new Error(`${name} ${version} names no licence`);
    const texts = files.map((file) => readFileSync(join(directory, file), 'utf8').trim());
    return [`${name} ${version} (${license ?? 'see below'})`, ...texts].join('\n\n');
  });
  const line = `\n\n${'-'.repeat(80)}\n\n`;
  return `dist/ contains code of these libraries, under their licences.${line}${notices.join(line)}\n`;
}
