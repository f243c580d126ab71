// Chinese manual and console: one term per thing, and no page is older than its English page.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { texts } from '../../src/console/web/words/texts.ts';
import { zhDoctor } from '../../src/console/web/words/zh-doctor.ts';
import { zhOptions } from '../../src/console/web/words/zh-options.ts';
import { zhReasons } from '../../src/console/web/words/zh-reasons.ts';
import { zhServer } from '../../src/console/web/words/zh-server.ts';

const manual = join(import.meta.dirname, '../../src/manual');
const read = (name: string) => readFileSync(join(manual, name), 'utf8');
const names = readdirSync(join(manual, 'zh')).filter((name) => name.endsWith('.md'));

const overview = read('zh/README.md');
const glossary = overview.slice(overview.indexOf('## 术语表'), overview.indexOf('\n参见'));
const entries = [...glossary.matchAll(/^\| ([^|]+) \| [^|]+ \| [^|]+ \|([^|]*)\|$/gm)]
  .map(([, term = '', synonyms = '']) => ({ term, synonyms: synonyms.trim().split('、').filter(Boolean) }))
  .filter(({ term }) => term !== '中文' && term !== '---');

it('glossary: each term and each synonym stands for one thing', () => {
  const words = entries.flatMap(({ term, synonyms }) => [term, ...synonyms]);
  expect(entries.length).toBeGreaterThan(40);
  expect(words.filter((word, at) => words.indexOf(word) !== at)).toEqual([]);
});

it('manual and console: use the terms of the glossary, not their synonyms', () => {
  const written = new Map<string, string>(
    names.map((name) => [`src/manual/zh/${name}`, read(`zh/${name}`).replace(glossary, '')]),
  );
  for (const [key, [, text]] of Object.entries(texts)) written.set(`texts.ts: ${key}`, text);
  for (const part of [zhServer, zhReasons, zhDoctor, zhOptions])
    for (const [key, text] of Object.entries(part)) written.set(`words/zh-*.ts: ${key}`, text);
  const found: string[] = [];
  for (const [place, text] of written)
    for (const { term, synonyms } of entries)
      for (const synonym of synonyms)
        for (const line of text.split('\n'))
          if (withoutTermsWith(synonym, line).includes(synonym))
            found.push(`${place}: write ${term}, not ${synonym}: ${line}`);
  expect(found).toEqual([]);
});

it('pages: each names the revision of its English page', () => {
  const stale: string[] = [];
  // The overview has no English page.
  for (const name of names.filter((one) => one !== 'README.md')) {
    const digest = createHash('sha256').update(read(name)).digest('hex').slice(0, 12);
    const line = `<!-- src/manual/${name} ${digest} -->`;
    // The title follows the line: neither another digest nor a mark of a merge is between them.
    const [first, second, title] = read(`zh/${name}`).split('\n');
    if (first !== line || second !== '' || !title?.startsWith('# '))
      stale.push(
        `compare src/manual/zh/${name} with src/manual/${name}, then make this its only line before the title: ${line}`,
      );
  }
  expect(stale).toEqual([]);
});

/** A synonym of one term may be a part of another term. */
function withoutTermsWith(synonym: string, line: string): string {
  return entries.reduce(
    (rest, { term }) => (term.includes(synonym) ? rest.replaceAll(term, '') : rest),
    line,
  );
}
