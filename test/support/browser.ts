// Starts a real Chromium for a test and watches its pages: an exception of a script, a violation of the
// content security policy and a request to another origin fail the test.
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { findProgram } from '../../scripts/services/binaries.ts';

/** One for a file: `afterAll(browser.close)`. Throws without chromium. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = findProgram('chromium');
  if (executablePath === null) throw new Error('chromium not found');
  return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}

export interface Watched {
  readonly page: Page;
  /** what went wrong on the page so far; must stay empty */
  readonly faults: readonly string[];
}

/** A page of its own profile. Checks at the end of the test that nothing went wrong on it. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'Asia/Shanghai', ...options });
  const page = await context.newPage();
  const faults: string[] = [];
  const { origin } = new URL(url);
  page.on('pageerror', (error) => faults.push(`exception: ${error.message}`));
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:'))
      faults.push(`request to ${request.url()}`);
  });
  await page.exposeFunction('reportViolation', (text: string) => void faults.push(`policy: ${text}`));
  await page.addInitScript(`addEventListener('securitypolicyviolation', (event) =>
    window.reportViolation(event.violatedDirective + ' ' + event.blockedURI))`);
  onTestFinished(async () => {
    await context.close();
    expect(faults).toEqual([]);
  });
  await page.goto(url);
  return { page, faults };
}

/** Rules of axe that the page breaks seriously: `rule: element`. */
export async function seriousFaults(page: Page): Promise<readonly string[]> {
  await page.evaluate(`${axe.source}; window.axe = axe; null`);
  const violations = (await page.evaluate(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
      violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 120)).join(' | ')))`,
  )) as string[];
  return violations;
}

/** Whether the page is wider than the window. */
export async function scrollsSideways(page: Page): Promise<boolean> {
  return (await page.evaluate(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  )) as boolean;
}
