// One screen of the console, as a short check of all of them (console-looks, console-hostile-texts): a
// hostile text appears as text, nothing of it runs, and axe finds no serious fault.

import { afterAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';

const why = await whyNotInstalled('browser');
if (why !== null && process.env['DQ_TEST_REQUIRE'] === 'services') throw new Error(why);
const browser = why === null ? await startBrowser() : null;
afterAll(() => browser?.close());
const hostile = `<img src=//127.0.0.1:1/x onerror="hit=1"></script><script>hit=2</script>javascript:hit=3\u202e`;

describe.skipIf(browser === null)('the list of topics', () => {
  it('shows a hostile title as text, on a phone too, without a serious fault', async () => {
    const daemon = await startDaemon({ console: true });
    const url = await daemon.consoleUrl();
    const topic = { topic: 'order.close', callbackUrl: 'http://127.0.0.1:9/', title: hostile };
    expect((await daemon.api('POST', '/v1/topics', topic)).status).toBe(201);
    const viewport = { width: 390, height: 844 };
    const { page } = await openPage(browser as NonNullable<typeof browser>, `${url}/topics`, { viewport });
    await page.getByText(hostile).filter({ visible: true }).waitFor();
    expect(await page.evaluate('window.hit ?? null')).toBeNull();
    expect(await page.locator('main img, main script').count()).toBe(0);
    expect(await seriousFaults(page)).toEqual([]);
    expect(await scrollsSideways(page)).toBe(false);
  });
});
