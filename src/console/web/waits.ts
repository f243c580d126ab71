// A duration of the API as all times of the page.

import { durationMs } from './backoff-waits.ts';
import { duration } from './format.ts';
import { t } from './words/words.ts';

/** "3d" of the API as all times of the page: "3 d" */
export function spoken(text: string): string {
  const ms = durationMs(text);
  if (ms === null) return text;
  return ms === 0 ? `0 ${t('unit_s')}` : duration(ms);
}
