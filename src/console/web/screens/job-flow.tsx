// The flow of a job: every change that dq knows, newest first.

import type { AttemptJson, FlowJson } from '../../../contract/api/job.ts';
import { topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { exactClock } from '../format.ts';
import { List } from '../parts/list.tsx';
import { Card, type Colour, Pill } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';
import { shortResult } from './job-attempts.tsx';

const colours: Readonly<Partial<Record<Entry['event'], Colour>>> = {
  accepted: 'delayed',
  retried: 'retry',
  dead: 'dead',
  done: 'done',
  restored: 'ready',
};

type Entry = FlowJson['entries'][number];

/** `isOptional`: shows nothing for a job without any. */
export function JobFlow({
  topic,
  id,
  isOptional = false,
}: {
  topic: string;
  id: string;
  isOptional?: boolean;
}) {
  const { data, error } = usePoll<FlowJson>(topicPath(topic, 'jobs', id, 'flow'), 5_000);
  if (data === null && (isOptional || error?.status === 404)) return null;
  return (
    <Card title={t('flow')} note={data === null ? '' : t(data.journal ? 'flow_note' : 'flow_no_journal')}>
      <List
        items={data?.entries.toReversed() ?? null}
        error={error}
        rows={3}
        empty=""
        keyOf={({ at, event, version }) => `${at} ${event} ${version}`}
        columns={{
          time: {
            head: t('time'),
            cell: ({ at }) => <Time class="num" at={at} text={exactClock} />,
            card: ({ at }) => <Time class="faint num" at={at} />,
          },
          event: { head: t('flow_event'), cell: Event },
          version: { head: t('version'), look: 'mono soft', cell: ({ version }) => version },
          due: {
            head: t('due'),
            cell: ({ dueAt }) =>
              dueAt === null ? '' : <Time class="num soft" at={dueAt} text={exactClock} />,
          },
          by: {
            head: t('flow_by'),
            look: 'soft',
            cell: byOf,
            card: (entry) => <span class="grow">{byOf(entry)}</span>,
          },
          shard: { head: t('shard'), look: 'mono faint', cell: ({ place }) => place },
        }}
        card={{ row: ['event', 'by', 'time'] }}
      />
    </Card>
  );
}

function Event({ event, attempt }: Entry) {
  const word = t(`flow_${event}`);
  return (
    <Pill colour={colours[event] ?? 'quiet'}>
      {attempt === null ? word : `${word}: ${resultOf(attempt)}`}
    </Pill>
  );
}

function resultOf(attempt: AttemptJson): string {
  const result = shortResult(attempt);
  return result === '' ? String(attempt.attempt) : result;
}

const byOf = ({ process, host }: Entry): string =>
  process !== null && host !== null ? t('attempt_by', { notifier: process, host }) : (process ?? host ?? '');
