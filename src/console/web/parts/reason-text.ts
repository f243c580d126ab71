// Why a notifier calls no job of a topic, or few, in the page's language.

import type { CapacityReasonJson } from '../../../contract/api/job.ts';

import { duration } from '../format.ts';
import { serverText } from '../words/words.ts';

export function reasonText({ code, message, remedy, values }: CapacityReasonJson) {
  const [wait, patience] = [values['waitMs'], values['patienceMs']].map((ms) => duration(Number(ms ?? 0)));
  const all = { ...values, wait: wait ?? '', patience: patience ?? '' };
  return {
    message: serverText(`reason_${code}`, message, all),
    remedy: serverText(`remedy_${code}`, remedy, all),
  };
}
