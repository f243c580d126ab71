// The manual: generated pages are up to date, links resolve, every code and command exists and is documented.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { exitMeanings, remedies } from '../../scripts/docs/errors.ts';
import { generatedFiles } from '../../scripts/docs.ts';
import { exitCodes } from '../../src/cli/exit.ts';
import { commands } from '../../src/cli/program.ts';
import { capacityCodes } from '../../src/core/capacity-reasons.ts';
import { catalogue } from '../../src/core/errors.ts';
import { attemptReasons } from '../../src/core/job.ts';

const root = join(import.meta.dirname, '../..');
const manual = join(root, 'src/manual');
const paths = [
  ...[join(root, 'README.md'), join(root, 'src/README.md')],
  ...readdirSync(manual, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(manual, name)),
];
const pages = new Map(paths.map((path) => [path, readFileSync(path, 'utf8')]));
const nameOf = (path: string) => relative(root, path);

it('generated files: up to date (npm run docs)', async () => {
  for (const [path, text] of await generatedFiles())
    expect(existsSync(path) && readFileSync(path, 'utf8'), nameOf(path)).toBe(text);
});

it('README: at most 180 lines', () => {
  expect(pages.get(join(root, 'README.md'))?.split('\n').length).toBeLessThanOrEqual(180);
});

it('README: its figures are those of the performance page', () => {
  const page = pages.get(join(manual, 'performance.md')) ?? '';
  const summary = filledBlock(page, 'summary').matchAll(/^\| [^|]*\d* \| ([\d,.]+)/gm);
  const [pushes = '', deliveries = '', lateness = ''] = [...summary].map(([, figure]) => figure);
  const readme = filledBlock(pages.get(join(root, 'README.md')) ?? '', 'readme');
  const about = (figure: string) =>
    Number(Number(figure.replaceAll(',', '')).toPrecision(2)).toLocaleString('en');
  expect(readme).toContain(`about ${about(pushes)} pushes`);
  expect(readme).toContain(`delivers about ${about(deliveries)} jobs`);
  expect(readme).toContain(`p99 lateness is ${lateness} ms`);
  const rowOf = (table: string) => /^\| dq, embedded.*$/m.exec(filledBlock(page, table))?.[0];
  expect(rowOf('intake-256')).toContain(`| ${pushes} (`);
  expect(rowOf('delivery')).toContain(`| ${deliveries} (`);
  expect(rowOf('lateness-50')).toContain(`| ${lateness} (`);
});

/** What the benchmark wrote. */
function filledBlock(page: string, name: string): string {
  return new RegExp(`<!-- bench: ${name} -->\n([\\s\\S]*?)<!-- end -->`).exec(page)?.[1] ?? '';
}

it('pages: every link leads to a file, and every anchor to a heading', () => {
  const broken: string[] = [];
  for (const [path, text] of pages)
    for (const [, link = ''] of withoutCode(text).matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g)) {
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? path : resolve(dirname(path), file);
      const isThere = existsSync(target);
      const anchors = isThere && anchor !== undefined ? anchorsOf(readFileSync(target, 'utf8')) : null;
      if (!isThere || (anchor !== undefined && !anchors?.has(decodeURIComponent(anchor))))
        broken.push(`${nameOf(path)}: ${link}`);
    }
  expect(broken).toEqual([]);
});

it('pages: each is reached from the README', () => {
  const reached = new Set<string>();
  const visit = (path: string): void => {
    if (reached.has(path) || !pages.has(path)) return;
    reached.add(path);
    for (const [, file = ''] of (pages.get(path) ?? '').matchAll(/\]\((?!https?:)([^)#\s]+\.md)/g))
      visit(resolve(dirname(path), file));
  };
  visit(join(root, 'README.md'));
  expect(paths.filter((path) => !reached.has(path)).map(nameOf)).toEqual([]);
});

it('errors: each code has a remedy, and each exit code a meaning', () => {
  // A remedy may exist before its code.
  expect(Object.keys(remedies)).toEqual(expect.arrayContaining(Object.keys(catalogue)));
  expect(Object.keys(exitMeanings).sort()).toEqual(Object.keys(exitCodes).sort());
});

it('pages: statuses and codes are pairs of the catalogue', () => {
  const wrong: string[] = [];
  for (const [path, text] of pages)
    for (const [pair, status, code = ''] of text.matchAll(/\b([45]\d\d) `([a-z_]+)`/g))
      if (Object.entries(catalogue).every(([name, one]) => name !== code || one.status !== Number(status)))
        wrong.push(`${nameOf(path)}: ${pair}`);
  expect(wrong).toEqual([]);
});

it('guarantees: every named test exists, and every number names one', () => {
  const text = pages.get(join(manual, 'guarantees.md')) ?? '';
  const named = [...text.matchAll(/^\d+\. `(test\/\S+)` › `(.+)`$/gm)];
  expect(named.length).toBeGreaterThan(10);
  const missing = named.filter(([, file = '', title]) => {
    const path = join(root, file);
    return !existsSync(path) || !readFileSync(path, 'utf8').includes(`'${title}',`);
  });
  expect(missing.map(([line]) => line)).toEqual([]);
  const section = text.slice(text.indexOf('### With a journal'), text.indexOf('\n1. `test/'));
  const used = [...section.matchAll(/\((\d+(?:, \d+)*)\)/g)].flatMap(([, list = '']) => list.split(', '));
  expect([...new Set(used.map(Number))].sort((a, b) => a - b)).toEqual(named.map((_, n) => n + 1));
});

it('troubleshooting: its table has every exit code', () => {
  const text = pages.get(join(manual, 'troubleshooting.md')) ?? '';
  const section = text.slice(
    text.indexOf('## Exit codes'),
    text.indexOf('\n## ', text.indexOf('## Exit codes') + 1),
  );
  const named = [...section.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
  // Two of them share a number.
  expect(named).toEqual([...new Set(Object.values(exitCodes))].sort((a, b) => a - b));
});

it('troubleshooting: its tables have every reason of a failed attempt and of a topic without calls', () => {
  const page = pages.get(join(manual, 'troubleshooting.md')) ?? '';
  const firstCells = [...page.matchAll(/^\| (`[^|]*) \|/gm)].map(([, cell]) => cell).join(' ');
  for (const reason of [...attemptReasons, ...capacityCodes]) expect(firstCells).toContain(`\`${reason}\``);
});

it('pages: every named command exists', () => {
  const unknown: string[] = [];
  for (const [path, text] of pages) {
    const inline = [...text.matchAll(/`(?:npx )?dq ([a-z]+)/g)];
    const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block);
    const typed = blocks.flatMap((block) => [...block.matchAll(/(?:^|[;|&(] ?|npx )dq ([a-z]+)/gm)]);
    for (const [, name = ''] of [...inline, ...typed])
      if (!Object.hasOwn(commands, name)) unknown.push(`${nameOf(path)}: dq ${name}`);
  }
  expect(unknown).toEqual([]);
});

it('troubleshooting: every message that it quotes is a text of the program', () => {
  const source = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(root, 'src', name), 'utf8'))
    .join('\n')
    .replaceAll(/['`] \+\s+['`]/g, '')
    .replaceAll('\\', '');
  const quotes = (pages.get(join(manual, 'troubleshooting.md')) ?? '')
    .split('\n')
    .flatMap((line) => [...(/^\| (?!`dq )([^|]*)/.exec(line)?.[1]?.matchAll(/(`{1,2})(.+?)\1/g) ?? [])])
    .map(([, , quote = '']) => quote);
  // Parts between variables; a part of one word proves nothing.
  const parts = quotes.flatMap((quote) => quote.split(/…|[()\d]+|\b[A-Z]+\b/).map((part) => part.trim()));
  const long = parts.filter((part) => part.includes(' '));
  expect(long.length).toBeGreaterThan(30);
  expect(long.filter((part) => !source.includes(part))).toEqual([]);
});

function withoutCode(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```$/gm, '').replaceAll(/`[^`\n]*`/g, '');
}

/** GitHub's anchors: lower case, no punctuation, hyphens for spaces, -1 for the second of a name. */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/^#{1,6} (.*)$/gm)) {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M} _-]/gu, '')
      .replaceAll(' ', '-');
    let name = slug;
    for (let n = 1; anchors.has(name); n++) name = `${slug}-${n}`;
    anchors.add(name);
  }
  return anchors;
}
