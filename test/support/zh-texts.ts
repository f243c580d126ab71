// Finds texts of the page that are still English although its language is Chinese.

import { en } from '../../src/console/web/words/en.ts';
import { zh } from '../../src/console/web/words/zh.ts';

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Whole English texts of the dictionary, with values in the places of {name}. */
const english = Object.entries(en)
  // Short ones are units, and words that are also codes.
  .filter(
    ([key, text]) => text !== zh[key as keyof typeof zh] && text.replace(/\{\w+\}/g, '').trim().length > 3,
  )
  .map(([key, text]) => ({
    key,
    pattern: new RegExp(
      `^${text
        .split(/\{\w+\}/)
        .map(escaped)
        .join('.+')}$`,
      's',
    ),
  }));

/** `found`: texts of a page. `isFromOutside`: names, codes and texts of people stay as they are. */
export function englishTexts(
  found: readonly string[],
  isFromOutside: (text: string) => boolean,
): readonly string[] {
  return [...new Set(found)].flatMap((text) => {
    if (isFromOutside(text)) return [];
    const key = english.find(({ pattern }) => pattern.test(text))?.key;
    if (key !== undefined) return [`${key}: ${text}`];
    return /[A-Za-z]{2,} [A-Za-z]{2,} [A-Za-z]{2,}/.test(text) ? [`sentence: ${text}`] : [];
  });
}
