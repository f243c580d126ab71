// Bundles the console's page and the manual into dist/console: hashed files, their gzip and brotli forms, and
// manifest.json, the closed map of what dq-console serves. Fails when a part is larger than its budget.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build, type Metafile, type PluginBuild } from 'esbuild';
import { en } from '../src/console/web/words/en.ts';
import { zh } from '../src/console/web/words/zh.ts';
import { isOfScreen, screenWords } from '../src/console/web/words/zh-screens.ts';
import { type Language, readManual } from './build-manual.ts';
import { topicFormFile, topicFormText } from './topic-form.ts';

/** Bytes after gzip. A page that loads slowly is not opened twice. Those of the manual are apart, and of each
 *  language, since a reader loads one: all of it, and `manualIndex`, the first load of its search. */
const budgets = {
  firstScripts: 60 * 1024,
  // Of all screens together. A screen is loaded when it is opened: firstScripts is what a reader waits for.
  allScripts: 120 * 1024,
  styles: 15 * 1024,
  // The Chinese texts that each page loads, and those of single screens.
  dictionary: 12 * 1024,
  screenDictionaries: 10 * 1024,
  manual: 328 * 1024,
  manualChinese: 156 * 1024,
  manualIndex: 96 * 1024,
};

interface Served {
  readonly type: string;
  readonly file: string;
  readonly gzip?: string;
  readonly br?: string;
}

/** Returns the libraries in the bundle, for the notices. */
export async function buildConsole(root: string, out: string): Promise<Metafile> {
  const web = join(root, 'src/console/web');
  const { metafile, outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [
      join(web, 'main.tsx'),
      join(web, 'boot.js'),
      join(web, 'css/main.css'),
      join(web, 'manual.ts'),
      join(web, 'css/manual.css'),
    ],
    outdir: out,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: ['es2022', 'chrome123', 'firefox120', 'safari17.5'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    minify: true,
    charset: 'utf8',
    plugins: [
      { name: 'dictionary', setup: packDictionary },
      { name: 'topic form', setup: fillTopicForm },
    ],
    metafile: true,
    write: false,
    legalComments: 'none',
    logLevel: 'warning',
  });
  mkdirSync(out, { recursive: true });
  const manifest: Record<string, Served> = {};
  const sizes = new Map<string, number>();
  const serve = (path: string, type: string, file: string, content: Uint8Array): void => {
    const gzip = gzipSync(content, { level: 9 });
    writeFileSync(join(out, file), content);
    writeFileSync(join(out, `${file}.gz`), gzip);
    writeFileSync(join(out, `${file}.br`), brotliCompressSync(content));
    manifest[path] = { type, file, gzip: `${file}.gz`, br: `${file}.br` };
    sizes.set(file, gzip.length);
  };
  for (const { path, contents } of outputFiles) {
    const file = basename(path);
    const type = file.endsWith('.css') ? 'text/css; charset=utf-8' : 'text/javascript; charset=utf-8';
    serve(`/assets/${file}`, type, file, contents);
  }
  const hashed = (name: string, kind: string): string => {
    const file = outputFiles
      .map(({ path }) => basename(path))
      .find((one) => new RegExp(`^${name}-[A-Z0-9]+\\.${kind}$`).test(one));
    if (file === undefined) throw new Error(`a page names ${name}.${kind}, which the bundle does not have`);
    return `/assets/${file}`;
  };
  const page = readFileSync(join(web, 'index.html'), 'utf8').replace(
    /\/assets\/(main|boot)\.(js|css)/g,
    (_, name: string, kind: string) => hashed(name, kind),
  );
  serve('/', 'text/html; charset=utf-8', 'index.html', Buffer.from(page));
  const manual = readManual(root);
  const indexOf = (language: Language): string => {
    const content = Buffer.from(JSON.stringify(manual.index[language]));
    const hash = createHash('sha256').update(content).digest('hex').slice(0, 8);
    const file = `search-${language}-${hash}.json`;
    if (!sizes.has(file)) serve(`/assets/${file}`, 'application/json', file, content);
    return `/assets/${file}`;
  };
  const assets = {
    boot: hashed('boot', 'js'),
    script: hashed('manual', 'js'),
    styles: hashed('manual', 'css'),
  };
  for (const { path, html } of manual.pages(assets, indexOf)) {
    const file = `${path.slice(1).replaceAll('/', '.')}.html`;
    serve(path, 'text/html; charset=utf-8', file, Buffer.from(html));
  }
  writeFileSync(join(out, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  checkBudgets(metafile, sizes);
  return metafile;
}

/** Ships each language apart, and the Chinese texts of few screens. They are in the order of the English
 *  keys: the keys are a third of the file, and the page has them already. */
function packDictionary({ onLoad }: PluginBuild): void {
  const chinese = (
    name: string,
    isOwn: (key: string) => boolean,
    test: string,
  ) => `import { en } from './en.ts';
    const texts = ${JSON.stringify(Object.entries(zh).flatMap(([key, text]) => (isOwn(key) ? [text] : [])))};
    const keys = Object.keys(en).filter((key) => ${test}/^(${screenWords.join('|')})_/.test(key));
    export const ${name} = Object.fromEntries(keys.map((key, at) => [key, texts[at]]));`;
  for (const [filter, contents] of [
    [/words\/en\.ts$/, `export const en = ${JSON.stringify(en)};`],
    [/words\/zh\.ts$/, chinese('zh', (key) => !isOfScreen(key), '!')],
    [/words\/zh-screens\.ts$/, chinese('zhScreens', isOfScreen, '')],
  ] as const)
    onLoad({ filter }, () => ({ contents, loader: 'ts' }));
}

function fillTopicForm({ onLoad }: PluginBuild): void {
  onLoad({ filter: topicFormFile }, ({ path }) => ({ contents: topicFormText(path), loader: 'ts' }));
}

function checkBudgets({ outputs }: Metafile, sizes: ReadonlyMap<string, number>): void {
  const sizeOf = (names: readonly string[]): number =>
    names.reduce((sum, name) => sum + (sizes.get(basename(name)) ?? 0), 0);
  const files = Object.keys(outputs).filter((name) => !basename(name).startsWith('manual-'));
  const isDictionary = (name: string): boolean => /(^|\/)zh-/.test(name);
  const isOfScreen = (name: string): boolean => /(^|\/)zh-(reasons|doctor|options|screens)-/.test(name);
  const scripts = files.filter((name) => name.endsWith('.js'));
  const main = scripts.find((name) => outputs[name]?.entryPoint?.endsWith('main.tsx')) ?? '';
  const first = new Set([main]);
  for (const name of first)
    for (const { path, kind } of outputs[name]?.imports ?? [])
      if (kind === 'import-statement') first.add(path);
  const manualFiles = [...sizes.keys()].filter((name) => /^(manual|search)/.test(name));
  const isChinese = (name: string): boolean => /^(manual\.|search-)zh\b/.test(name);
  const found = {
    firstScripts: sizeOf([...first]),
    // With the English texts, which are in a script of the first load.
    allScripts: sizeOf(scripts.filter((name) => !isDictionary(name))),
    styles: sizeOf(files.filter((name) => name.endsWith('.css'))),
    dictionary: sizeOf(scripts.filter((name) => isDictionary(name) && !isOfScreen(name))),
    screenDictionaries: sizeOf(scripts.filter(isOfScreen)),
    manual: sizeOf(manualFiles.filter((name) => !isChinese(name))),
    manualChinese: sizeOf(manualFiles.filter(isChinese)),
    manualIndex: sizeOf([...sizes.keys()].filter((name) => name.startsWith('search-en'))),
  };
  for (const [part, budget] of Object.entries(budgets)) {
    const size = found[part as keyof typeof found];
    if (size > budget)
      throw new Error(`console: ${part} has ${size} bytes after gzip; the budget is ${budget}`);
  }
  console.log(`console: ${JSON.stringify(found)} bytes after gzip`);
}
