// Every screen once, on a phone, with hostile texts in every place that people, producers and endpoints can
// fill: each appears as text, no script of it runs, no request leaves the console's origin (openPage watches
// both), axe finds no serious fault, and nothing scrolls sideways. Every size, colour and language:
// console-looks; the longest texts at every width: console-all-widths.

import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { seriousFaults, tooWide } from '../support/browser.ts';
import { button } from '../support/console-site.ts';
import { goTo, startRichConsole } from '../support/rich-console.ts';

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
  // Short, because it stands in the bar of each screen.
  label: 'label <img src=x onerror=hit=10>',
  token: 'ops',
};
const rich = await startRichConsole(texts);

/** About 60 screens. */
const timeout = 360_000;

it('every screen: hostile texts are text, no fault, no sideways scroll', { timeout }, async () => {
  const page = await rich.open({ viewport: { width: 390, height: 844 } });
  const missing = new Map(Object.entries(await shownTexts()));
  const faults: unknown[] = [];
  const examine = async (name: string, within = 'html') => {
    const found = [...(await seriousFaults(page, 'all', within)), ...(await traces(page))];
    found.push(...(await tooWide(page)));
    if (found.length > 0) faults.push({ name, found });
    const shown = await textOf(page);
    for (const [what, text] of missing) if (shown.includes(text)) missing.delete(what);
  };
  for (const path of rich.screens) {
    await goTo(page, path);
    await examine(path);
  }
  await goTo(page, '/topics/vip.recall');
  await button(page, 'Test call').click();
  await button(page, 'Send test call').click();
  await page.getByText('Reply headers').click();
  await page.locator('dialog pre').first().waitFor();
  await examine('test call', 'dialog[open]');
  await button(page, 'Close').click();
  await page.locator('#find').fill('id <img');
  await page.getByRole('option').filter({ hasText: hostile }).first().waitFor();
  await examine('find list', '.find-list');
  await page.goto(`${rich.url}/manual`);
  await examine('manual');
  expect(faults).toEqual([]);
  expect([...missing.keys()]).toEqual([]);
});

/** What must be found on some screen: each text as far as the API keeps it. */
async function shownTexts(): Promise<Readonly<Record<string, string>>> {
  const topic = (await rich.read('/v1/topics/vip.recall')) as { callbackUrl: string };
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

/** A script of the texts that ran, and elements that only their markup can make. */
async function traces(page: Page): Promise<string[]> {
  return (await page.evaluate(`[...(window.hit === undefined ? [] : ['hit ' + window.hit]),
    ...[...document.querySelectorAll(
      'img, iframe, script:not([src]), [onerror], [onload], [onfocus], [autofocus], a[href^="javascript:"]'
    )].map((at) => at.outerHTML.slice(0, 100)),
  ]`)) as string[];
}

/** Texts and values of fields, as they are. */
function textOf(page: Page): Promise<string> {
  return page.evaluate(`[document.body.textContent,
    ...[...document.querySelectorAll('input, textarea')].map(({ value }) => value),
  ].join('\\n')`);
}
