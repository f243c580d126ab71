// The screens of the console with the longest texts, at widths of a phone, a tablet and a small desk, in both
// languages: nothing scrolls sideways. Every screen at every width: console-all-widths.test.ts.

import { expect, it } from 'vitest';
import { faultsOf, mainScreens, startLongConsole } from '../support/wide-console.ts';

const rich = await startLongConsole();

it.each(['en-GB', 'zh-CN'])('%s: no screen scrolls sideways', async (locale) => {
  const page = await rich.open(locale);
  expect(await faultsOf(page, [...mainScreens, ...rich.longScreens], [390, 768, 1_024])).toEqual([]);
});
