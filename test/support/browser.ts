// Starts a real Chromium for a test and watches its pages: an exception of a script, an error in the page's
// console, a violation of the content security policy and a request to another origin fail the test.
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { findProgram, whyNotInstalled } from '../../scripts/services/binaries.ts';

/** One for a file: `afterAll(browser.close)`. Installs chromium where it can, and throws without it. */
export async function startBrowser(): Promise<Browser> {
  const why = await whyNotInstalled('browser');
  if (why !== null) throw new Error(why);
  const executablePath = findProgram('chromium');
  if (executablePath === null) throw new Error('chromium not found');
  return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}

export interface Watched {
  readonly page: Page;
  /** what went wrong on the page so far; must stay empty */
  readonly faults: readonly string[];
}

/** A page of its own profile. Checks at the end of the test that nothing went wrong on it, nor on a page that
 *  it opened. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  // Without transitions, which cost time: a colour half-way has a lower contrast.
  const context = await browser.newContext({
    ...{ locale: 'en-GB', timezoneId: 'Asia/Shanghai', reducedMotion: 'reduce' },
    ...options,
  });
  // A deadline proves nothing.
  context.setDefaultTimeout(100_000);
  const faults: string[] = [];
  const { origin } = new URL(url);
  context.on('weberror', (error) => faults.push(`exception: ${error.error().message}`));
  context.on('console', (message) => {
    // The page handles replies with an error status; Chromium notes them as errors, too.
    const isReply = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isReply) faults.push(`console: ${message.text()}`);
  });
  context.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on('request', (request) => {
    const to = new URL(request.url());
    if (to.origin !== origin && to.protocol !== 'data:') faults.push(`request to ${request.url()}`);
  });
  await context.exposeFunction('reportViolation', (text: string) => void faults.push(`policy: ${text}`));
  await context.addInitScript(`addEventListener('securitypolicyviolation', (event) =>
    window.reportViolation(event.violatedDirective + ' ' + event.blockedURI))`);
  const page = await context.newPage();
  onTestFinished(async () => {
    await context.close();
    expect(faults).toEqual([]);
  });
  await page.goto(url);
  return { page, faults };
}

/** g and a letter. Both are sent at once: the page waits 1.5 s for the letter, and a key can take longer to
 *  be acknowledged. */
export async function pressG(page: Page, letter: string): Promise<void> {
  await Promise.all([page.keyboard.press('g'), page.keyboard.press(letter)]);
}

export type AxeRules = 'all' | 'contrast' | 'all but contrast';

const runOptions: Readonly<Record<AxeRules, object>> = {
  all: {},
  contrast: { runOnly: ['color-contrast'] },
  'all but contrast': { rules: { 'color-contrast': { enabled: false } } },
};

/** Rules of axe that the page breaks seriously: `rule: element`. `within`: selector. */
export async function seriousFaults(
  page: Page,
  rules: AxeRules = 'all',
  within = 'html',
): Promise<readonly string[]> {
  if ((await page.evaluate('window.axe === undefined')) === true)
    await page.evaluate(`${axe.source}; window.axe = axe; null`);
  const options = JSON.stringify({ ...runOptions[rules], resultTypes: ['violations'] });
  const violations = (await page.evaluate(
    `axe.run(${JSON.stringify(within)}, ${options}).then(({ violations }) =>
      violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 120)).join(' | ')))`,
  )) as string[];
  return violations;
}

/** What does not fit the window: the page itself, a box that scrolls sideways, and what leaves its card. A
 *  block of code and a table of the manual scroll on purpose, as do the tabs of a phone. */
export async function tooWide(page: Page): Promise<readonly string[]> {
  return (await page.evaluate(`(() => {
    const root = document.documentElement;
    const isPhone = root.clientWidth < 768;
    const name = (at) => at.outerHTML.replace(/\\s+/g, ' ').slice(0, 100);
    const scrolls = (at) => ['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(at).overflowX);
    const mayScroll = 'pre, textarea, .plot-table, article .scroll' + (isPhone ? ', .tabs' : '');
    const found = root.scrollWidth > root.clientWidth
      ? ['the page: ' + (root.scrollWidth - root.clientWidth) + ' px'] : [];
    for (const at of document.querySelectorAll('body *')) {
      if (at.closest('svg, .sr') !== null || !at.checkVisibility({ visibilityProperty: true })) continue;
      const { overflowX } = getComputedStyle(at);
      if (['auto', 'scroll'].includes(overflowX) && at.scrollWidth > at.clientWidth + 1 && !at.matches(mayScroll))
        found.push('scrolls ' + (at.scrollWidth - at.clientWidth) + ' px: ' + name(at));
      const { right, width } = at.getBoundingClientRect();
      let box = at.parentElement;
      while (box !== null && !scrolls(box) && !box.matches('.card, .strip, .tile, dialog, main, header, nav')) box = box.parentElement;
      const edge = box === null || scrolls(box) || width === 0 ? null : box.getBoundingClientRect().right;
      if (edge !== null && right > edge + 1) found.push('leaves its box by ' + Math.round(right - edge) + ' px: ' + name(at));
    }
    return found.slice(0, 5);
  })()`)) as string[];
}
