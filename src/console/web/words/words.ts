// The language of the page: t('pause_question', { topic }) is the text of a key of texts.ts in it. The page
// loads Chinese only when it is chosen.

import { signal } from '@preact/signals';
import { remember } from '../remembered.ts';
import { en } from './en.ts';
import { codeOf, filled, partsOf } from './filled.ts';

export type Language = 'en' | 'zh';
export type Word = keyof typeof en;

export const language = signal<Language>(document.documentElement.lang.startsWith('zh') ? 'zh' : 'en');
/** by code; empty in English */
const server = signal<Readonly<Record<string, string>>>({});
const table = signal<Readonly<Record<Word, string>>>(en);

/** `values`: as filled() takes them. A page from before an upgrade may get a code that it has no text for:
 *  it shows `other`. */
export function t(
  key: Word,
  values: Readonly<Record<string, string | number>> = {},
  other = codeOf(key),
): string {
  return filled(table.value[key] ?? other, values);
}

/** The text of a key in parts: words, the name of a value, words, and so on. */
export const wordParts = (key: Word, values: Readonly<Record<string, string>>): readonly string[] =>
  partsOf(table.value[key], values);

/** The text of a code of an open list; `other` for codes that have none. For a code of a closed list write
 *  t(`job_${state}`): the compiler requires a text for each. */
export function wordOf(key: string, other: string): string {
  return Object.hasOwn(en, key) ? t(key as Word) : other;
}

/** A sentence of the server in the language of the page, by its code; `other`: its own, English words. */
export function serverText(
  key: string,
  other: string,
  values: Readonly<Record<string, string | number>> = {},
): string {
  const text = server.value[key];
  return text === undefined ? other : filled(text, values);
}

export async function choose(next: Language): Promise<void> {
  const [words, sentences] =
    next === 'zh'
      ? await Promise.all([
          import('./zh.ts').then(({ zh }) => zh),
          import('./zh-server.ts').then(({ zhServer }) => zhServer),
        ])
      : [en, {}];
  server.value = sentences;
  table.value = words;
  language.value = next;
  document.documentElement.lang = next === 'zh' ? 'zh-CN' : 'en';
  remember('dq-language', next);
}
