// The Chinese texts of the audit log and the journal. A page loads them with the first that it shows. The
// build writes them into this file and leaves them out of zh.ts (scripts/build-console.ts).

import { texts } from './texts.ts';

/** Beginnings of their keys. */
export const screenWords = ['act', 'journal'] as const;

export const isOfScreen = (key: string): boolean => screenWords.some((word) => key.startsWith(`${word}_`));

export const zhScreens: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(texts).flatMap(([key, [, text]]) => (isOfScreen(key) ? [[key, text]] : [])),
);
