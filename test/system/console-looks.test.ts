// Every screen of the console with data of every kind, and what opens above the screens, in both languages,
// light and dark, wide and on a phone: no serious fault of axe, no sideways scroll, no text cut off; in
// Chinese no English text.

import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { en } from '../../src/console/web/words/en.ts';
import { zh } from '../../src/console/web/words/zh.ts';
import { openPage, seriousFaults, tooWide } from '../support/browser.ts';
import { goTo, screenIsThere, startRichConsole } from '../support/rich-console.ts';
import { englishTexts } from '../support/zh-texts.ts';

const rich = await startRichConsole({
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
  token: 'ops',
});
const { browser, url, screens } = rich;

/** In the other colours only the contrast differs, and Chinese has the same colours. */
const looks = {
  'en-GB': [
    { width: 1_440, colorScheme: 'light', rules: 'all' },
    { width: 1_440, colorScheme: 'dark', rules: 'contrast' },
    { width: 390, colorScheme: 'dark', rules: 'all' },
    { width: 390, colorScheme: 'light', rules: 'contrast' },
  ],
  'zh-CN': [
    { width: 1_440, colorScheme: 'light', rules: 'all but contrast' },
    { width: 390, colorScheme: 'light', rules: 'all but contrast' },
  ],
} as const;
/** Screens of one test: all of them would take too long on a busy machine. */
const atOnce = 15;
const parts = Array.from({ length: Math.ceil(screens.length / atOnce) }, (_, part) =>
  screens.slice(part * atOnce, (part + 1) * atOnce),
);
const cases = (['en-GB', 'zh-CN'] as const).flatMap((locale) =>
  parts.map((paths, part) => ({ locale, paths, part: part + 1 })),
);

it.each(cases)(
  'every screen, $locale, part $part: no serious fault, fits the window, no text cut off',
  async ({ locale, paths }) => {
    const page = await rich.open({ locale });
    const faults: unknown[] = [];
    for (const path of paths) {
      await look(page, looks[locale][0]);
      await goTo(page, path);
      for (const { width, colorScheme, rules } of looks[locale]) {
        await look(page, { width, colorScheme });
        const found = [...(await seriousFaults(page, rules))];
        found.push(...(await tooWide(page)), ...(await cutTexts(page)));
        if (locale === 'zh-CN') found.push(...englishTexts(await textsOf(page), isFromOutside));
        if (found.length > 0) faults.push({ path, width, colorScheme, found });
      }
    }
    expect(faults).toEqual([]);
  },
);

/** Changes the window and the colours of the page that is shown: it needs no second load. */
async function look(page: Page, { width, colorScheme }: Look): Promise<void> {
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme });
}

it('the manual: no serious fault, fits the window', async () => {
  const { page } = await openPage(browser, `${url}/manual`);
  for (const name of ['', '/reference/configuration', '/console', '/zh']) {
    await page.goto(`${url}/manual${name}`);
    for (const { width, colorScheme } of looks['en-GB']) {
      await look(page, { width, colorScheme });
      expect([name, await seriousFaults(page), await tooWide(page)]).toEqual([name, [], []]);
    }
  }
});

interface Look {
  readonly width: number;
  readonly colorScheme: 'light' | 'dark';
}

const job = '/jobs/bill.send/vip-2026-again';
const topic = '/topics/order.close';

interface Overlay {
  readonly path: string;
  /** the buttons that lead to it */
  readonly buttons: readonly (keyof typeof en)[];
  /** before them, or instead */
  readonly before?: (page: Page) => Promise<unknown>;
  /** what appears; default: a dialog */
  readonly appears?: string;
  /** the buttons that leave it: settings with changes keep the page */
  readonly after?: readonly (keyof typeof en)[];
  /** its buttons are not on a phone */
  readonly isWide?: true;
}

const changeUrl = (page: Page) =>
  page.getByRole('textbox', { name: /Callback URL|回调地址/ }).fill('https://example.org/');

/** Each kind of dialog, the menu, the list of the find box, and a toast. */
const overlays: Readonly<Record<string, Overlay>> = {
  confirmation: { path: topic, buttons: ['pause'] },
  'dangerous confirmation': { path: job, buttons: ['cancel_job'] },
  'typed confirmation': { path: topic, buttons: ['delete_topic'], isWide: true },
  'one field': { path: job, buttons: ['reschedule'] },
  'choice of a time': { path: '/dead', buttons: ['requeue_all'] },
  'fields of times': { path: '/dead', buttons: ['op_by_time'], isWide: true },
  difference: {
    path: `${topic}/settings`,
    before: changeUrl,
    buttons: ['save'],
    after: ['cancel', 'discard'],
  },
  'unsaved changes': {
    path: `${topic}/settings`,
    before: async (page) => {
      await changeUrl(page);
      await page.locator('a[href$="/dead"]:visible').first().click();
    },
    buttons: [],
    after: ['leave'],
  },
  'test call': { path: topic, buttons: ['test_call'] },
  keys: { path: '/more', buttons: ['keys'] },
  menu: {
    path: '/topics',
    buttons: [],
    before: (page) => page.locator('[aria-haspopup]:visible').first().click(),
    appears: '.menu:popover-open',
  },
  'find list': {
    path: '/jobs',
    buttons: [],
    before: async (page) => {
      await page.keyboard.press('/');
      await page.keyboard.type('vip');
      await page.getByRole('option').nth(3).waitFor();
    },
    appears: '.find-list',
  },
  toast: {
    path: job,
    buttons: ['copy_id'],
    // It stays: the examination can take longer than its 6 s.
    before: (page) =>
      page.evaluate(`const set = setTimeout;
        window.setTimeout = (act, ms, ...rest) => (ms === 6_000 ? 0 : set(act, ms, ...rest)); null`),
    appears: '.toast',
  },
};

it.each([
  { locale: 'en-GB', width: 1_440 },
  { locale: 'en-GB', width: 390 },
  { locale: 'zh-CN', width: 390 },
] as const)(
  'what opens above a screen, $locale $width: no serious fault, fits the window, no text cut off',
  async ({ locale, width }) => {
    const viewport = { width, height: 900 };
    const page = await rich.open({ locale, viewport });
    const words = locale === 'zh-CN' ? zh : en;
    const faults: unknown[] = [];
    const examine = async (name: string, within: string) => {
      const found = [...(await tooWide(page)), ...(await cutTexts(page))];
      if (locale === 'zh-CN') found.push(...englishTexts(await textsOf(page), isFromOutside));
      else
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          found.push(...(await seriousFaults(page, colorScheme === 'light' ? 'all' : 'contrast', within)));
        }
      if (found.length > 0) faults.push({ name, found });
    };
    const click = async (names: readonly (keyof typeof en)[]) => {
      for (const name of names)
        await page.getByRole('button', { name: words[name] }).filter({ visible: true }).first().click();
    };
    for (const [
      name,
      { path, before, buttons, appears = 'dialog[open]', after = [], isWide },
    ] of Object.entries(overlays)) {
      if (isWide === true && width < 768) continue;
      await page.goto(url + path);
      await screenIsThere(page);
      await before?.(page);
      await click(buttons);
      await page.locator(appears).waitFor();
      await examine(name, appears);
      await click(after);
    }
    await page.context().clearCookies();
    await page.goto(url);
    await page.locator('form').waitFor();
    await examine('sign-in', 'body');
    await page.locator('form input').fill('dqk_wrong');
    await page.keyboard.press('Enter');
    await page.locator('[role=alert]').first().waitFor();
    await examine('rejected sign-in', 'body');
    expect(faults).toEqual([]);
  },
);

/** Codes, a command, and details of failures, which are words of the network and of the endpoint. */
const apiTexts = [
  /^(status \d{3}|connect)(: \d+)?$/,
  /dq topic add$/,
  /^no whole reply within/,
  /is no longer in use$/,
  /^cannot resolve \S+ \(\w+\)$/,
];
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
async function cutTexts(page: Page): Promise<string[]> {
  return (await page.evaluate(`[...document.querySelectorAll('button:not(.opener), .btn, .pill, .tag, .field, th, .tabs a, .tabbar a')]
    .filter((at) => at.checkVisibility() && at.closest('.sr') === null && at.clientWidth > 0)
    .filter((at) => at.scrollWidth > at.clientWidth)
    .map((at) => 'cut off: ' + at.outerHTML.slice(0, 120))`)) as string[];
}
