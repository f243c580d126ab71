// Why a notifier calls no job of a topic, or few, in the page's language.

import type { CapacityReasonJson } from '../../../contract/api/job.ts';
import { duration } from '../format.ts';
import { enServer } from '../words/en-server.ts';
import { serverText } from '../words/words.ts';

export function reasonText({ code, message, remedy, values }: CapacityReasonJson) {
  const durations = Object.entries(values)
    .filter(([name]) => name.endsWith('Ms'))
    .map(([name, ms]) => [name.slice(0, -2), duration(Number(ms))]);
  const all = { ...values, ...Object.fromEntries(durations) };
  const ownRemedies: Readonly<Record<string, string>> = enServer;
  return {
    message: serverText(`reason_${code}`, message, all),
    remedy: serverText(`remedy_${code}`, ownRemedies[`remedy_${code}`] ?? remedy, all),
  };
}
