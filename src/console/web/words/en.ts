// The English texts, which each page has. The build writes them into this file (scripts/build-console.ts),
// because the table has both languages.

import { texts } from './texts.ts';

export const en = Object.fromEntries(Object.entries(texts).map(([key, [text]]) => [key, text])) as Readonly<
  Record<keyof typeof texts, string>
>;
