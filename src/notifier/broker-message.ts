// Builds the message of one attempt for a broker: the job's body, its id for the receiver, and properties
// that say what the headers of a callback say. Unsigned: the broker authenticates its publishers.

import type { BrokerMessage } from '../broker/publication.ts';
import { webhookIdOf } from '../core/delivery.ts';
import { formatInstant } from '../core/duration.ts';
import { optionsIn, withOptions } from '../core/extension.ts';
import type { ReservedJob } from '../core/job.ts';
import type { Topic } from '../core/topic/topic.ts';

/** `nowMs`: storage clock. `traceparent`: of this attempt; undefined: the push brought no trace. */
export function brokerMessageOf(
  job: ReservedJob,
  topic: Topic,
  { nowMs, traceparent }: { readonly nowMs: number; readonly traceparent: string | undefined },
): BrokerMessage {
  const options = optionsIn(job.extension);
  const state = options.trace?.state ?? '';
  return {
    id: webhookIdOf(job),
    body: job.body,
    contentType: job.contentType,
    timestampMs: nowMs,
    properties: {
      ...topic.headers,
      'dq-topic': job.topic,
      'dq-job-id': job.id,
      'dq-attempt': job.failures + 1,
      'dq-max-attempts': withOptions(topic, options).maxAttempts,
      'dq-due-at': formatInstant(job.dueAt),
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(traceparent === undefined || state === '' ? {} : { tracestate: state }),
    },
  };
}
