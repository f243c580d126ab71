// Renders src/manual as the pages that the console serves under /manual: plain HTML with relative links, the
// console's own CSS, and one index per language for the search. HTML in the Markdown is dropped. Throws for a
// page without a place in the table of contents, and for a link to a page or heading that does not exist.
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { Marked, type Token, type Tokens } from 'marked';
import type { SearchRow } from '../src/console/web/manual-row.ts';

export type Language = 'en' | 'zh';

/** Paths of files of the build. */
export interface ManualAssets {
  readonly boot: string;
  readonly script: string;
  readonly styles: string;
}

export interface ManualPage {
  /** of the request: /manual/reference/http */
  readonly path: string;
  readonly html: string;
}

export interface Manual {
  readonly index: Readonly<Record<Language, readonly SearchRow[]>>;
  /** `indexOf`: path of the file with the rows of a language */
  readonly pages: (assets: ManualAssets, indexOf: (language: Language) => string) => readonly ManualPage[];
}

/** Not the changelog: the pages are open to all, and who is not signed in learns no version. */
const contents: Readonly<Record<Language, readonly (readonly [group: string, pages: readonly string[]])[]>> =
  {
    en: [
      [
        'Start',
        [
          'getting-started',
          'concepts',
          'console',
          'pushing',
          'clients',
          'receiving',
          'pulling',
          'brokers',
          'grpc',
          'schedules',
        ],
      ],
      ['Callbacks', ['retry-rules', 'signatures', 'dead-letters-alerts', 'guarantees']],
      [
        'Operation',
        [
          ...['install-upgrade-uninstall', 'production', 'configuration-as-code', 'security', 'monitoring'],
          ...['backup-restore', 'troubleshooting', 'performance'],
        ],
      ],
      ['Several machines', ['redis', 'shards', 'mysql', 'several-instances']],
      ['Migration', ['migrate-php-delayqueue', 'migrate-others']],
      [
        'Reference',
        [
          ...['reference/configuration', 'reference/command-line', 'reference/http', 'reference/metrics'],
          ...['reference/errors'],
        ],
      ],
    ],
    zh: [
      ['入门', ['zh', 'zh/getting-started', 'zh/console', 'zh/clients', 'zh/pulling', 'zh/schedules']],
      ['回调', ['zh/retry-rules', 'zh/dead-letters-alerts']],
      ['运维', ['zh/production', 'zh/troubleshooting', 'zh/redis']],
      ['迁移', ['zh/migrate-php-delayqueue']],
    ],
  };
const notServed: ReadonlySet<string> = new Set(['changelog']);

const texts = {
  en: {
    manual: 'Manual',
    search: 'Search the manual',
    none: 'Nothing found',
    console: 'Console',
    pages: 'Pages',
    sections: 'On this page',
    copy: 'Copy',
    copied: 'Copied',
    lead: 'How to use and operate dq.',
  },
  zh: {
    manual: '手册',
    search: '搜索手册',
    none: '未找到',
    console: '控制台',
    pages: '目录',
    sections: '本页内容',
    copy: '复制',
    copied: '已复制',
    lead: '',
  },
} as const;

interface Source {
  /** `security`, `reference/http`, `zh` */
  readonly name: string;
  readonly language: Language;
  readonly title: string;
  readonly tokens: readonly Token[];
  /** ids of its headings, in order */
  readonly anchors: readonly string[];
}

/** Reads and renders everything once. */
export function readManual(root: string): Manual {
  const directory = join(root, 'src/manual');
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => file.slice(0, -'.md'.length).replace(/(^|\/)README$/, ''))
    .map((name) => name.replace(/\/$/, ''))
    .filter((name) => !notServed.has(name))
    .sort();
  const placed = Object.values(contents).flatMap((groups) => groups.flatMap(([, pages]) => pages));
  for (const name of names)
    if (!placed.includes(name))
      throw new Error(`manual: ${name}.md has no place in the table of contents of scripts/build-manual.ts`);
  const sources = new Map(placed.map((name) => [name, readSource(directory, name)]));
  const bodies = new Map(Array.from(sources, ([name, source]) => [name, render(source, sources, directory)]));
  return {
    index: { en: rowsOf('en', sources), zh: rowsOf('zh', sources) },
    pages: (assets, indexOf) => [
      page('', 'en', texts.en.manual, overview(sources), sources, assets, indexOf('en')),
      ...Array.from(sources.values(), ({ name, language, title }) =>
        page(name, language, title, bodies.get(name) ?? '', sources, assets, indexOf(language)),
      ),
    ],
  };
}

function readSource(directory: string, name: string): Source {
  const file = name === 'zh' ? 'zh/README.md' : `${name}.md`;
  const tokens = new Marked().lexer(readFileSync(join(directory, file), 'utf8'));
  const headings = tokens.filter((token): token is Tokens.Heading => token.type === 'heading');
  const anchors: string[] = [];
  for (const { tokens: parts } of headings) anchors.push(unused(slugOf(plain(parts)), anchors));
  const [first] = headings;
  if (first?.depth !== 1) throw new Error(`manual: ${file} does not begin with its title`);
  const language = name === 'zh' || name.startsWith('zh/') ? 'zh' : 'en';
  return { name, language, title: plain(first.tokens), tokens, anchors };
}

/** As GitHub makes them, so that links work there, too. */
function slugOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M} _-]/gu, '')
    .replaceAll(' ', '-');
}

function unused(slug: string, taken: readonly string[]): string {
  if (!taken.includes(slug)) return slug;
  for (let n = 1; ; n += 1) if (!taken.includes(`${slug}-${n}`)) return `${slug}-${n}`;
}

/** The text of tokens, without markup and entities. */
function plain(tokens: readonly Token[] | undefined): string {
  return (tokens ?? [])
    .map((token) => {
      if (token.type === 'html' || token.type === 'space') return '';
      if (token.type === 'table') {
        const { header, rows } = token as Tokens.Table;
        return [header, ...rows].map((cells) => cells.map((cell) => plain(cell.tokens)).join(' ')).join(' ');
      }
      if (token.type === 'list')
        return (token as Tokens.List).items.map((item) => plain(item.tokens)).join(' ');
      const { tokens: inner, text = '' } = token as { tokens?: readonly Token[]; text?: string };
      return inner === undefined ? text : plain(inner) + (token.type === 'paragraph' ? ' ' : '');
    })
    .join('')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
}

function render(source: Source, sources: ReadonlyMap<string, Source>, directory: string): string {
  const { name, tokens, anchors } = source;
  let heading = 0;
  const marked = new Marked({
    renderer: {
      html: () => '',
      heading(token) {
        const id = anchors[heading] ?? '';
        heading += 1;
        return `<h${token.depth} id="${escaped(id)}">${this.parser.parseInline(token.tokens)}</h${token.depth}>\n`;
      },
      code: ({ text }) => `<pre class="code" tabindex="0">${escaped(text)}</pre>\n`,
      table(token) {
        const row = (cells: readonly Tokens.TableCell[], tag: 'th' | 'td') =>
          `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')}</tr>`;
        const rows = token.rows.map((cells) => row(cells, 'td')).join('');
        return `<div class="scroll" tabindex="0"><table><thead>${row(token.header, 'th')}</thead><tbody>${rows}</tbody></table></div>\n`;
      },
      link(token) {
        const inner = this.parser.parseInline(token.tokens);
        const target = targetOf(name, token.href, sources);
        return target === null ? inner : `<a href="${escaped(target)}">${inner}</a>`;
      },
      image: ({ href, text }) => drawing(join(directory, posix.dirname(name), href), text),
    },
  });
  return marked.parser([...tokens]).replace('</h1>\n', (title) => title + sectionsOf(source));
}

/** The contents of a page: below its title, from this many sections. */
const sectionsMin = 3;

function sectionsOf({ language, tokens, anchors }: Source): string {
  const headings = tokens.filter((token): token is Tokens.Heading => token.type === 'heading');
  const links = headings.flatMap((heading, n) =>
    heading.depth === 2
      ? [`<li><a href="#${escaped(anchors[n] ?? '')}">${escaped(plain(heading.tokens))}</a></li>`]
      : [],
  );
  if (links.length < sectionsMin) return '';
  return `<nav class="sections" aria-label="${texts[language].sections}"><ul>${links.join('')}</ul></nav>\n`;
}

/** An SVG of the manual becomes part of the page: it has the width of the page, and the page needs no second
 *  file. Throws for another kind of image. */
function drawing(file: string, text: string): string {
  if (!file.endsWith('.svg')) throw new Error(`manual: ${file} is not an SVG`);
  return readFileSync(file, 'utf8')
    .replace(/ width="\d+" height="\d+"/, '')
    .replace('<svg ', `<svg role="img" aria-label="${escaped(text)}" `);
}

/** null: the link leads out of the manual, to a file that is not served. */
function targetOf(from: string, href: string, sources: ReadonlyMap<string, Source>): string | null {
  if (/^https?:/.test(href)) return href;
  const [file = '', anchor] = href.split('#', 2);
  const source = from === 'zh' ? 'zh/README' : from;
  const named = file === '' ? source : posix.join(posix.dirname(source), file).replace(/\.md$/, '');
  const target = sources.get(named.replace(/(^|\/)README$/, ''));
  if (target === undefined) {
    if (named.startsWith('..') || notServed.has(named)) return null;
    throw new Error(`manual: ${from} links to ${href}, which does not exist`);
  }
  if (anchor !== undefined && !target.anchors.includes(anchor))
    throw new Error(`manual: ${from} links to ${href}, a heading that does not exist`);
  const path = file === '' ? '' : relative(from, pathOf(target.name));
  return anchor === undefined ? path : `${path}#${anchor}`;
}

const pathOf = (name: string): string => (name === '' ? '/manual' : `/manual/${name}`);

/** Relative, so that the pages work below the base path of a proxy: `../assets/x`. */
function relative(from: string, to: string): string {
  return posix.relative(posix.dirname(pathOf(from)), to) || '.';
}

/** Begins figures that scripts/bench wrote; another comment ends them. Their numbers are not searched for. */
const measuredMark = '<!-- bench:';

/** One row per section. The search compares single words, so those of English sections are there once each,
 *  and sorted: that is an eighth less after gzip. */
function rowsOf(language: Language, sources: ReadonlyMap<string, Source>): readonly SearchRow[] {
  const rows: SearchRow[] = [];
  for (const source of sources.values()) {
    if (source.language !== language) continue;
    let at = -1;
    let isMeasured = false;
    const sections = new Map<number, Token[]>();
    for (const token of source.tokens) {
      if (token.type === 'html') isMeasured = token.raw.startsWith(measuredMark);
      if (isMeasured) continue;
      if (token.type === 'heading') {
        at += 1;
        sections.set(at, [token]);
      } else sections.get(at)?.push(token);
    }
    for (const [n, tokens] of sections) {
      const text = plain(tokens.slice(1)).toLowerCase();
      const words =
        language === 'en' ? [...new Set(text.match(/[\p{L}\p{N}_.$/-]{2,40}/gu))].sort().join(' ') : text;
      const heading = plain((tokens[0] as Tokens.Heading).tokens);
      const anchor = source.anchors[n] ?? '';
      rows.push([n === 0 ? source.name : `${source.name}#${anchor}`, source.title, heading, words]);
    }
  }
  return rows;
}

function overview(sources: ReadonlyMap<string, Source>): string {
  const groups = contents.en.map(
    ([group, pages]) =>
      `<h2>${escaped(group)}</h2>\n<ul>${pages.map((name) => link('', sources.get(name))).join('')}</ul>\n`,
  );
  return `<h1>${texts.en.manual}</h1>\n<p>${texts.en.lead}</p>\n${groups.join('')}`;
}

function link(from: string, to: Source | undefined): string {
  if (to === undefined) throw new Error('manual: the table of contents names a page that does not exist');
  const current = from === to.name ? ' aria-current="page"' : '';
  return `<li><a href="${relative(from, pathOf(to.name))}"${current}>${escaped(to.title)}</a></li>`;
}

function page(
  name: string,
  language: Language,
  title: string,
  body: string,
  sources: ReadonlyMap<string, Source>,
  { boot, script, styles }: ManualAssets,
  index: string,
): ManualPage {
  const words = texts[language];
  const other = language === 'en' ? `zh/${name}` : name.replace(/^zh\/?/, '');
  const otherPath = pathOf(sources.has(other) || other === '' ? other : 'zh');
  const groups = contents[language].map(
    ([group, pages]) =>
      `<h3>${escaped(group)}</h3><ul>${pages.map((one) => link(name, sources.get(one))).join('')}</ul>`,
  );
  const at = (path: string): string => escaped(relative(name, path));
  const html = `<!doctype html>
<html lang="${language === 'zh' ? 'zh-CN' : 'en'}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="dq-search" content="${at(index)}">
<meta name="dq-manual" content="${at('/manual')}">
<title>${escaped(title)} · dq</title>
<link rel="icon" href="data:,">
<script src="${at(boot)}" data-language="page"></script>
<link rel="stylesheet" href="${at(styles)}">
<script type="module" src="${at(script)}"></script>
</head>
<body>
<a class="skip" href="#text">${words.manual}</a>
<div class="book">
<header>
<a class="brand" href="${at('/')}">dq</a>
<a href="${at(language === 'zh' ? '/manual/zh' : '/manual')}">${words.manual}</a>
<search><label class="sr" for="q">${words.search}</label>
<input id="q" type="search" placeholder="${words.search}" autocomplete="off" aria-controls="hits" data-none="${words.none}"></search>
<a href="${at(otherPath)}" lang="${language === 'zh' ? 'en' : 'zh'}">${language === 'zh' ? 'English' : '中文'}</a>
</header>
<details class="contents" open><summary>${words.pages}</summary><nav aria-label="${words.pages}">${groups.join('')}</nav></details>
<main id="text" data-copy="${words.copy}" data-copied="${words.copied}"><ol id="hits" hidden></ol><article>
${body}</article></main>
</div>
</body>
</html>
`;
  return { path: pathOf(name), html };
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
