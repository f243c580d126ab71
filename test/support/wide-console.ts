// A console with the longest texts that people, producers and endpoints can give and with lists of many rows,
// and a console without any data: what each screen must hold at every width.
import type { Browser, Page } from 'playwright-core';
import { openPage, tooWide } from './browser.ts';
import { drawn, type Site } from './console-site.ts';
import { startDaemon } from './daemon.ts';
import { goTo, type RichConsole, screenIsThere, startRichConsole } from './rich-console.ts';

const rows = 30;
/** One word of the longest name: nothing in it can be broken. */
const longTopic = `order.close-unpaid.${'x'.repeat(109)}`;
const longId = `order-2026-${'0123456789'.repeat(23)}`;
const longWords = 'Closes the orders that are still unpaid, and tells the warehouse of them. '
  .repeat(2)
  .trim();
const longName = 'producer-of-the-warehouse-'.repeat(2).slice(0, 50);

/** Returns the paths of the screens of these texts. */
async function addLongData({ addTopic, push, change, jobIs }: Site): Promise<readonly string[]> {
  const path = `/${'a-long-path/'.repeat(40)}?shop=${'x'.repeat(200)}`;
  const settings = { title: longWords, owner: longWords, maxAttempts: 1, concurrency: 8 };
  await addTopic(longTopic, settings, `/502${path}`);
  await addTopic(
    `${longTopic.slice(0, -2)}-2`,
    { ...settings, callbackUrl: `http://127.0.0.1:9${path}`, timeout: '1s' },
    null,
  );
  for (let n = 0; n < rows; n += 1) {
    await addTopic(`topic-${n}.of-many`, { title: `Topic ${n}`, delay: '1h' });
    await push('topic-0.of-many', `waits-${n}`, { delay: '3h' });
    await push(longTopic, `${longId}-${n}`);
  }
  await push(longTopic, `${longId}-later`, { delay: '2d' });
  await jobIs(longTopic, `${longId}-${rows - 1}`, 'dead');
  await change('POST', '/v1/operations', { kind: 'requeue', filter: { topic: longTopic, idPrefix: longId } });
  const schedule = {
    topic: longTopic,
    cron: '0,5,10,15,20,25,30,35,40,45,50,55 9-17 * * 1-5',
    timezone: 'America/Argentina/ComodRivadavia',
  };
  await change('POST', '/v1/schedules', { name: `nightly-${longName}`, ...schedule });
  return [
    ...[`/topics/${longTopic}`, `/jobs/${longTopic}/${longId}-1`, `/jobs/${longTopic}/${longId}-later`],
    ...[`/dead?topic=${longTopic}`, `/jobs?topic=${longTopic}`, `/schedules/nightly-${longName}`],
    ...['jobs', 'attempts', 'settings', 'secret', 'changes'].map((tab) => `/topics/${longTopic}/${tab}`),
  ];
}

export function startLongConsole(): Promise<RichConsole> {
  return startRichConsole(
    {
      title: longWords,
      owner: longWords,
      id: 'vip-2026-',
      body: longWords,
      token: longName,
      contentType: 'application/vnd.shop.order-confirmation+json; charset=utf-8; version=12',
      reply: longWords.repeat(3),
      replyHeader: longWords,
      rule: longWords,
      url: `?shop=${'x'.repeat(300)}`,
      address: 'operators-of-the-warehouse-at-night@a-long-name.of-a-department.example.org',
      incident: `Redis does not answer: ${longWords}`,
      label: 'production of all warehouses',
    },
    addLongData,
  );
}

/** Paths of the screens that need no data. */
export const mainScreens = [
  ...['/', '/first', '/topics', '/topics/new?create', '/jobs', '/dead', '/push', '/schedules'],
  ...['/schedules/new?create', '/store', '/processes', '/alerts', '/access', '/configuration', '/audit'],
  ...['/doctor', '/operations', '/more', '/absent'],
];

export async function openEmptyConsole(browser: Browser, locale: string): Promise<Page> {
  const daemon = await startDaemon({ console: true });
  const { page } = await openPage(browser, await daemon.consoleUrl(), { locale });
  await screenIsThere(page);
  return page;
}

/** What does not fit, by screen and width. */
export async function faultsOf(
  page: Page,
  screens: readonly string[],
  widths: readonly number[],
): Promise<readonly unknown[]> {
  const faults: unknown[] = [];
  for (const path of screens) {
    await goTo(page, path);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await drawn(page);
      const found = await tooWide(page);
      if (found.length > 0) faults.push({ path: path.slice(0, 60), width, found });
    }
  }
  return faults;
}
