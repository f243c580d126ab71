// Every screen of the console with data of every kind, in both languages, light and dark, wide and on a
// phone: no serious fault of axe, no sideways scroll, no text cut off; in Chinese no English text.

import type { Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { screenIsThere, startRichConsole } from '../support/rich-console.ts';
import { englishTexts } from '../support/zh-texts.ts';

const browser = await startBrowser();
afterAll(() => browser.close());
const rich = await startRichConsole(browser, {
  title: '催付未支付的订单',
  owner: '李伟',
  id: 'vip-2026-',
  body: '订单已锁定',
  contentType: 'application/vnd.shop+json; charset=utf-8',
  reply: '订单已锁定，请稍后再试',
  replyHeader: 'a17',
  rule: '锁定',
  url: '?shop=1',
  address: 'ops@example.org',
  incident: 'Redis 无应答',
  label: '预发环境',
});
const { url, screens, storageState } = rich;

/** In the other colours only the contrast differs, and Chinese has the same colours. */
const contrast = ['color-contrast'];
const looks = [
  { locale: 'en-GB', width: 1_440, colorScheme: 'light', rules: undefined },
  { locale: 'en-GB', width: 1_440, colorScheme: 'dark', rules: contrast },
  { locale: 'en-GB', width: 390, colorScheme: 'dark', rules: undefined },
  { locale: 'en-GB', width: 390, colorScheme: 'light', rules: contrast },
  { locale: 'zh-CN', width: 1_440, colorScheme: 'light', rules: undefined },
  { locale: 'zh-CN', width: 390, colorScheme: 'dark', rules: undefined },
] as const;

it.each(looks)(
  'every screen, $locale $width $colorScheme: no serious fault, fits the window, no text cut off',
  async ({ locale, width, colorScheme, rules }) => {
    const viewport = { width, height: 900 };
    const { page } = await openPage(browser, url, { locale, colorScheme, viewport, storageState });
    const faults: unknown[] = [];
    for (const path of screens) {
      await page.goto(url + path);
      await screenIsThere(page);
      const found = [...(await seriousFaults(page, rules))];
      if (await scrollsSideways(page)) found.push('scrolls sideways');
      found.push(...(await cutTexts(page)));
      if (locale === 'zh-CN') found.push(...englishTexts(await textsOf(page), isFromOutside));
      if (found.length > 0) faults.push({ path, found });
    }
    expect(faults).toEqual([]);
  },
);

/** Codes, and details of failures, which are words of the network and of the endpoint. */
const apiTexts = [/^(status \d{3}|connect)(: \d+)?$/, /^no whole reply within/, /is no longer in use$/];
const isFromOutside = (text: string): boolean => apiTexts.some((pattern) => pattern.test(text));

/** Visible texts, and the names that assistive technology reads. */
async function textsOf(page: Page): Promise<readonly string[]> {
  return (await page.evaluate(`(() => {
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { parentElement: at, data } = walker.currentNode;
      if (at.closest('pre, code, .mono, [lang=en], script, style') === null && at.checkVisibility()) texts.push(data.trim());
    }
    for (const name of ['aria-label', 'title', 'placeholder', 'alt'])
      for (const at of document.querySelectorAll('[' + name + ']')) texts.push(at.getAttribute(name).trim());
    return texts.filter((text) => text !== '');
  })()`)) as string[];
}

/** Buttons, chips and heads of tables too narrow for their text. A row that opens is cut on purpose. */
async function cutTexts(page: Page): Promise<readonly string[]> {
  return (await page.evaluate(`[...document.querySelectorAll('button:not(.opener), .btn, .pill, .tag, .field, th, .tabs a, .tabbar a')]
    .filter((at) => at.checkVisibility() && at.closest('.sr') === null && at.clientWidth > 0)
    .filter((at) => at.scrollWidth > at.clientWidth)
    .map((at) => 'cut off: ' + at.outerHTML.slice(0, 120))`)) as string[];
}
