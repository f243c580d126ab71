// Every screen of the console at every width, in both languages, without data and with the longest texts:
// nothing scrolls sideways.

import { expect, it } from 'vitest';
import { faultsOf, mainScreens, openEmptyConsole, startLongConsole } from '../support/wide-console.ts';

const rich = await startLongConsole();
const widths = [390, 600, 640, 768, 1_024, 1_280, 1_300, 1_440, 1_920];

it.each(['en-GB', 'zh-CN'])('%s, the longest texts: no screen scrolls sideways', async (locale) => {
  expect(await faultsOf(await rich.open({ locale }), rich.screens, widths)).toEqual([]);
});

it.each(['en-GB', 'zh-CN'])('%s, without data: no screen scrolls sideways', async (locale) => {
  const page = await openEmptyConsole(rich.browser, locale);
  expect(await faultsOf(page, mainScreens, widths)).toEqual([]);
});
