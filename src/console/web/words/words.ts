// The language of the page: t('pause_question', { topic }) is the text of a key of texts.ts in it. The page
// loads Chinese only when it is chosen.

import { signal } from '@preact/signals';
import { codeOf, filled, partsOf } from '../../../core/filled.ts';
import { remember } from '../remembered.ts';
import { en } from './en.ts';
import type { screenWords } from './zh-screens.ts';

export type Language = 'en' | 'zh';
export type Word = keyof typeof en;

export const language = signal<Language>(document.documentElement.lang.startsWith('zh') ? 'zh' : 'en');
type Texts = Readonly<Record<string, string>>;
/** by code; empty in English */
const server = signal<Texts>({});
/** Without the Chinese texts of few screens. */
const table = signal<Readonly<Partial<Record<Word, string>>>>(en);

/** `values`: as filled() takes them. A page from before an upgrade may get a code that it has no text for:
 *  it shows `other`. */
export function t(
  key: Word,
  values: Readonly<Record<string, string | number>> = {},
  other = codeOf(key),
): string {
  const text = table.value[key];
  return text === undefined ? serverText(key, other, values) : filled(text, values);
}

/** The text of a key in parts: words, the name of a value, words, and so on. */
export const wordParts = (key: Word, values: Readonly<Record<string, string>>): readonly string[] =>
  partsOf(table.value[key] ?? t(key), values);

/** The text of a code of an open list; `other` for codes that have none. For a code of a closed list write
 *  t(`job_${state}`): the compiler requires a text for each. */
export function wordOf(key: string, other: string): string {
  return Object.hasOwn(en, key) ? t(key as Word) : other;
}

const reasons = () => import('./zh-reasons.ts').then(({ zhReasons }) => zhReasons);
const doctor = () => import('./zh-doctor.ts').then(({ zhDoctor }) => zhDoctor);
const options = () => import('./zh-options.ts').then(({ zhOptions }) => zhOptions);
const screens = () => import('./zh-screens.ts').then(({ zhScreens }) => zhScreens);
/** Chinese texts of few screens, by the beginning of their keys. The first that is shown loads its part. */
const parts: Readonly<Record<string, () => Promise<Texts>>> &
  Readonly<Record<(typeof screenWords)[number], () => Promise<Texts>>> = {
  reason: reasons,
  remedy: reasons,
  check: doctor,
  finding: doctor,
  option: options,
  act: screens,
  journal: screens,
};
const loading = new Set<() => Promise<Texts>>();
const asked = new Set<() => Promise<Texts>>();
let chinese: Texts = {};

/** A sentence of the server in the language of the page, by its code; `other`: its own, English words. ''
 *  while it is loaded. */
export function serverText(
  key: string,
  other: string,
  values: Readonly<Record<string, string | number>> = {},
): string {
  const text = server.value[key];
  if (text !== undefined) return filled(text, values);
  const load = parts[key.slice(0, key.indexOf('_'))];
  if (language.value === 'en' || load === undefined) return other;
  if (!asked.has(load)) void addPart(load);
  return loading.has(load) ? '' : other;
}

/** Its Chinese text in parts, as wordParts. */
export const serverParts = (
  key: string,
  values: Readonly<Record<string, string | number>>,
): readonly string[] => partsOf(server.value[key] ?? '', values);

/** Without the part, the page shows the words of the server. */
async function addPart(load: () => Promise<Texts>): Promise<void> {
  asked.add(load);
  loading.add(load);
  const part = await load().catch(() => ({}));
  loading.delete(load);
  chinese = { ...chinese, ...part };
  if (language.value === 'zh') server.value = chinese;
}

/** Of a sentence of the server that has no Chinese words. */
export const langOf = (text: string, other: string): 'en' | undefined =>
  language.value === 'zh' && text === other ? 'en' : undefined;

export async function choose(next: Language): Promise<void> {
  let words: typeof table.value = en;
  if (next === 'zh') {
    const [{ zh }, { zhServer }] = await Promise.all([import('./zh.ts'), import('./zh-server.ts')]);
    words = zh;
    chinese = { ...chinese, ...zhServer };
  }
  server.value = next === 'zh' ? chinese : {};
  table.value = words;
  language.value = next;
  document.documentElement.lang = next === 'zh' ? 'zh-CN' : 'en';
  remember('dq-language', next);
}
