// Checks the words of src/, scripts/, test/ and README.md, and the length of their comment lines: text that a
// reader must decode costs more than the line it saves. The rules and the glossary are in src/README.md; the
// glossary itself is not checked, nor is a line of data with the comment `check-words: data`. The patterns
// are a floor: text that passes can still be hard to read.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const commentCharsMax = 110;
/** Ends a line that quotes such words as data. */
export const dataMark = '// check-words: data';

/** Each with a better form. */
export const patterns: readonly { readonly pattern: RegExp; readonly better: string }[] = [
  {
    pattern: /(?<![`'"])\b(whoever|nobody|somebody|everybody|anybody)\b/i, // check-words: data
    better: 'name the process, caller or user',
  },
  {
    pattern: /\b(of before|anew|aloud|lest|unasked)\b/i, // check-words: data
    better: 'previous, again, in the log, so that … not, without a request',
  },
  { pattern: /(?<!there )\b(is|are|was|were|be) none\b/i, better: 'invalid X, without X, no X exists' },
  {
    pattern: /(?<!there )\b(is|are|was|were) no (?!longer|more\b|such|other)[a-z]/i,
    better: 'is not a …, invalid …, unknown …',
  },
  { pattern: /\b(is|are|was|were|be|been) told\b/i, better: 'dq sends X to Y, Y receives X' },
  { pattern: /\b(hears?|heard) (of|how|it|no|what)\b/i, better: 'reads, receives' },
  { pattern: /\b(hand(s|ed|ing)?|g[ia]v(e|es|en|ing)) back\b/i, better: 'release, return' },
  { pattern: /\b(is|are|was|were|be) away\b/i, better: 'is unavailable' },
  { pattern: /\bcannot be (asked|told|found out|had|said|noted)\b/i, better: 'cannot read, write or send X' },
  {
    pattern:
      /[.;:/*] (what|who) (is (?!wrong)|was|has|had|came|comes|lies|stands|goes|waits|needs|cannot|may)\b/i,
    better: 'a noun: reserved jobs, excess alerts',
  },
  {
    pattern: /\b(as a rule|in hand|put off|how far it is)\b/i, // check-words: data
    better: 'usually, running, delay, progress',
  },
];

export interface Finding {
  readonly line: number;
  readonly words: string;
  readonly better: string;
}

export function checkWords(text: string): readonly Finding[] {
  return text.split('\n').flatMap((line, index) => {
    const found = patterns.flatMap(({ pattern, better }) => {
      const words = pattern.exec(line)?.[0];
      return words === undefined ? [] : [{ line: index + 1, words, better }];
    });
    if (!line.endsWith(dataMark)) return found;
    // A mark that outlives its words would hide later ones.
    return found.length > 0 ? [] : [{ line: index + 1, words: dataMark, better: 'remove the mark' }];
  });
}

export function checkCommentLength(text: string): readonly Finding[] {
  return text.split('\n').flatMap((line, index) => {
    const isLong = line.length > commentCharsMax && /^\s*(\/\/|\*|\/\*\*|--)/.test(line);
    // A directive cannot be wrapped.
    if (!isLong || line.includes('biome-ignore')) return [];
    return [{ line: index + 1, words: `comment of ${line.length} characters`, better: 'wrap at 110' }];
  });
}

/** src/README.md without its glossary, whose lines become empty. */
export function withoutGlossary(text: string): string {
  return text.replace(/^## Glossary\n[\s\S]*?(?=^## |(?![\s\S]))/m, (section) =>
    section.replaceAll(/[^\n]/g, ''),
  );
}

function main(): void {
  const root = join(import.meta.dirname, '..');
  const filesOf = (folder: string, endings: RegExp) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => endings.test(name) && !name.includes('node_modules/'))
      .map((name) => join(root, folder, name));
  const map = join(root, 'src/README.md');
  const found: string[] = [];
  const check = (path: string, checkText: (text: string) => readonly Finding[]) => {
    const text = readFileSync(path, 'utf8');
    for (const { line, words, better } of checkText(path === map ? withoutGlossary(text) : text))
      found.push(`${relative(root, path)}:${line}: ${words.trim()} → ${better}`);
  };
  check(join(root, 'README.md'), checkWords);
  for (const folder of ['src', 'scripts', 'test']) {
    for (const path of filesOf(folder, /\.(ts|mjs|lua|md|sql|sh|py|php|rb|go|java)$/))
      check(path, checkWords);
    for (const path of filesOf(folder, /\.(ts|mjs|lua)$/)) check(path, checkCommentLength);
  }
  for (const one of found) console.error(one);
  if (found.length > 0) {
    console.error(`${found.length} to reword (src/README.md, "Language")`);
    process.exitCode = 1;
  }
}

if (process.argv[1] === import.meta.filename) main();
