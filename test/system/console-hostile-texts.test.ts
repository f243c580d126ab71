// Hostile texts in every place that people, producers and endpoints can fill: each appears as text on the
// console, no script of it runs, and no request leaves the console's origin (openPage watches both).

import type { Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { openPage, startBrowser } from '../support/browser.ts';
import { screenIsThere, startRichConsole } from '../support/rich-console.ts';

const browser = await startBrowser();
afterAll(() => browser.close());

// Each would set window.hit, or load something from another origin.
const ascii = [
  `<img src=//127.0.0.1:1/x onerror="hit=1">`,
  `</script><script>hit=2</script>`,
  `<svg/onload=hit=3>`,
  `"onfocus='hit=4'autofocus`,
  `javascript:hit=5`,
].join('');
const hostile = `${ascii}\u202e\u2066txt`;
const long = 'x'.repeat(10_240);
const texts = {
  title: `title ${hostile}`,
  owner: `owner ${hostile}`,
  id: `id ${hostile} `,
  body: `body ${hostile}${long}${hostile}`,
  contentType: `text/html;${ascii}`,
  reply: `reply ${hostile}${long}`,
  replyHeader: `header ${ascii}`,
  rule: 'rule <img src=x onerror=hit=6>',
  url: `?u=javascript:hit=7<img/src=x/onerror='hit=8'>`,
  address: "a'{hit=9}'onload=`hit`@example.org",
  incident: `incident ${hostile}`,
  label: `label ${hostile}`,
};
const rich = await startRichConsole(browser, texts);

/** A page load per screen, about 60 of them. */
const timeout = 360_000;

it('hostile texts appear as text on every screen, and nothing of them runs', { timeout }, async () => {
  const { page } = await openPage(browser, rich.url, { storageState: rich.storageState });
  const missing = new Map(Object.entries(await shownTexts()));
  for (const path of rich.screens) {
    await page.goto(rich.url + path);
    await screenIsThere(page);
    expect([path, await traces(page)]).toEqual([path, { hit: null, elements: [] }]);
    const shown = await textOf(page);
    for (const [name, text] of missing) if (shown.includes(text)) missing.delete(name);
  }
  expect([...missing.keys()]).toEqual([]);
});

/** What must be found on some screen: each text as far as the API keeps it. */
async function shownTexts(): Promise<Readonly<Record<string, string>>> {
  const topic = (await rich.read('/v1/topics/vip.recall')) as { callbackUrl: string; alertEmails: string[] };
  const rule = (await rich.read('/v1/topics/coupon.expire')) as { retryIf: string };
  return {
    ...texts,
    // Cut in lists; the tree of a body escapes quotes.
    body: JSON.stringify(texts.body).slice(1, 100),
    reply: texts.reply.slice(0, 100),
    rule: rule.retryIf,
    url: topic.callbackUrl,
    // In a list of headers, at most 128 bytes.
    replyHeader: texts.replyHeader.slice(0, 100),
  };
}

/** Whether a script of the texts ran, and elements that only their markup can make. */
function traces(page: Page): Promise<unknown> {
  return page.evaluate(`({
    hit: window.hit ?? null,
    elements: [...document.querySelectorAll(
      'img, iframe, script:not([src]), [onerror], [onload], [onfocus], [autofocus], a[href^="javascript:"]'
    )].map((at) => at.outerHTML.slice(0, 100)),
  })`);
}

/** Texts and values of fields, as they are. */
function textOf(page: Page): Promise<string> {
  return page.evaluate(`[document.body.textContent,
    ...[...document.querySelectorAll('input, textarea')].map(({ value }) => value),
  ].join('\\n')`);
}
