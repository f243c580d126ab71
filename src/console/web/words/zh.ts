// The Chinese texts, which the page loads when they are chosen. The build writes them into this file, without
// those of zh-screens.ts.

import { texts } from './texts.ts';

export const zh = Object.fromEntries(Object.entries(texts).map(([key, [, text]]) => [key, text])) as Readonly<
  Record<keyof typeof texts, string>
>;
