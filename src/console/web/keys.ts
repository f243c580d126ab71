// Keys of the console, outside of fields. Rows need no state: the current row is the one that has the focus.
// Single keys can be switched off, because speech input types them by chance.

import { signal } from '@preact/signals';
import { refreshAll } from './api/poll.ts';
import { copyText } from './parts/parts.tsx';
import { recalled, remember } from './remembered.ts';
import { go, href } from './router.ts';
import type { Word } from './words/words.ts';

/** After g. */
export const screensByKey: Readonly<Record<string, { path: readonly string[]; title: Word }>> = {
  o: { path: [], title: 'overview' },
  t: { path: ['topics'], title: 'topics' },
  j: { path: ['jobs'], title: 'jobs' },
  d: { path: ['dead'], title: 'dead_letters' },
  p: { path: ['push'], title: 'push_job' },
  s: { path: ['processes'], title: 'processes' },
  a: { path: ['access'], title: 'access' },
};

/** Keys of the screen that is shown, which sets and clears them. They come before those of every screen. */
export const screenKeys = new Map<string, () => void>();
/** Whether the table of keys is open. */
export const keysShown = signal(false);
export const keysOn = signal(recalled('dq-keys') !== 'off');

/** Time for the letter after g, ms. */
const afterGMs = 1_500;

export function setKeysOn(on: boolean): void {
  keysOn.value = on;
  remember('dq-keys', on ? 'on' : 'off');
}

const isField = (element: EventTarget | null): boolean =>
  (element instanceof HTMLInputElement && element.type !== 'checkbox') ||
  element instanceof HTMLTextAreaElement ||
  element instanceof HTMLSelectElement;

const everyScreen: Readonly<Record<string, () => void>> = {
  '/': () => {
    const field = document.querySelector<HTMLInputElement>('#find');
    field?.focus();
    field?.select();
  },
  '?': () => {
    keysShown.value = true;
  },
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: () => currentRow()?.querySelector<HTMLInputElement>('input[type=checkbox]')?.click(),
  c: copyId,
  r: refreshAll,
};

/** Returns the function that removes them. */
export function bindKeys(): () => void {
  let gAt = -afterGMs;
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (isField(event.target)) {
      if (event.key === 'Escape') (event.target as HTMLElement).blur();
      return;
    }
    if (!keysOn.value) return;
    const wasG = event.timeStamp - gAt < afterGMs;
    gAt = -afterGMs;
    const screen = wasG ? screensByKey[event.key] : undefined;
    const act = screenKeys.get(event.key) ?? everyScreen[event.key];
    if (screen !== undefined) go(href(...screen.path));
    else if (event.key === 'g') gAt = event.timeStamp;
    else if (act !== undefined) act();
    else return;
    event.preventDefault();
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}

function rows(): readonly HTMLElement[] {
  const all = document.querySelectorAll<HTMLElement>('main tbody tr, main .cards > li');
  return [...all].filter((row) => row.offsetParent !== null && row.querySelector('a, button') !== null);
}

function currentRow(): HTMLElement | undefined {
  return rows().find((row) => row.contains(document.activeElement));
}

function moveRow(step: 1 | -1): void {
  const all = rows();
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[at === -1 ? (step === 1 ? 0 : all.length - 1) : at + step];
  next?.querySelector<HTMLElement>('a, button')?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

/** Copies the id of the current row, else of the job that the page shows. */
function copyId(): void {
  const link = currentRow()?.querySelector('a.name.mono');
  if (link) void copyText(link.textContent ?? '', link);
  else document.querySelector<HTMLElement>('main .title button')?.click();
}
