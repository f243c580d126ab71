// The search of the manual's pages: reads the index of the language once, with the first key, and lists the
// sections that have all words. A button at each block of code copies it. The pages work without both.

import type { SearchRow } from './manual-row.ts';

const hitsMax = 20;
const field = document.querySelector<HTMLInputElement>('#q');
const list = document.querySelector<HTMLElement>('#hits');
const contents = document.querySelector<HTMLDetailsElement>('details.contents');

/** of a meta element: paths relative to this page */
const meta = (name: string): string =>
  document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? '';

let rows: Promise<readonly SearchRow[]> | null = null;

async function readIndex(): Promise<readonly SearchRow[]> {
  const reply = await fetch(meta('dq-search'));
  if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
  return (await reply.json()) as readonly SearchRow[];
}

/** Higher is better; 0: a word is missing. A heading counts more than a title, a title more than a text. */
function rank([, page, heading, text]: SearchRow, words: readonly string[]): number {
  const [inHeading, inPage] = [heading.toLowerCase(), page.toLowerCase()];
  let sum = 0;
  for (const word of words) {
    if (inHeading.includes(word)) sum += 10;
    else if (inPage.includes(word)) sum += 4;
    else if (text.includes(word)) sum += ` ${text}`.includes(` ${word}`) ? 2 : 1;
    else return 0;
  }
  return sum;
}

async function search(text: string): Promise<void> {
  if (field === null || list === null) return;
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  list.hidden = words.length === 0;
  if (words.length === 0) return;
  rows ??= readIndex();
  const found = await rows.catch(() => {
    rows = null;
    return [];
  });
  // Another key was typed meanwhile.
  if (field.value !== text) return;
  const best = found
    .map((row) => [rank(row, words), row] as const)
    .filter(([points]) => points > 0)
    .sort(([a], [b]) => b - a)
    .slice(0, hitsMax);
  list.replaceChildren(...best.map(([, row]) => hit(row)));
  if (best.length === 0) list.append(line(field.dataset['none'] ?? ''));
}

function hit([target, page, heading]: SearchRow): HTMLElement {
  const link = document.createElement('a');
  link.href = `${meta('dq-manual')}/${target}`;
  link.textContent = heading;
  const item = line('');
  item.append(link);
  if (heading !== page) {
    const where = document.createElement('span');
    where.textContent = page;
    item.append(where);
  }
  return item;
}

function line(text: string): HTMLElement {
  const item = document.createElement('li');
  item.textContent = text;
  return item;
}

field?.addEventListener('input', () => void search(field.value));
field?.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') list?.querySelector('a')?.click();
  if (event.key !== 'Escape') return;
  field.value = '';
  void search('');
});
addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey;
  if (event.key !== '/' || isTyping) return;
  event.preventDefault();
  field?.focus();
});
const words = document.querySelector<HTMLElement>('#text')?.dataset;
for (const code of document.querySelectorAll('article pre.code')) {
  const button = document.createElement('button');
  button.className = 'btn s copy';
  button.textContent = words?.['copy'] ?? '';
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = words?.['copied'] ?? '';
    } catch {
      // The clipboard exists on https and localhost only.
      getSelection()?.selectAllChildren(code);
    }
  });
  const block = document.createElement('div');
  block.className = 'block';
  code.replaceWith(block);
  block.append(code, button);
}
// On a phone the contents would fill the first screen.
if (contents !== null && matchMedia('(max-width: 767px)').matches) contents.open = false;
