// The flow of a job: every change that dq knows, newest first.

import { topicPath } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import type { AttemptJson, FlowJson } from '../api/types.ts';
import { exactClock } from '../format.ts';
import { Card, type Colour, Pill, Waiting } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t, wordOf } from '../words/words.ts';
import { shortResult } from './job-attempts.tsx';

const colours: Readonly<Record<string, Colour>> = {
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
  const entries = data?.entries.toReversed() ?? [];
  return (
    <Card title={t('flow')} note={data === null ? '' : t(data.journal ? 'flow_note' : 'flow_no_journal')}>
      {data === null ? (
        <Waiting rows={3} error={error} />
      ) : (
        <>
          <table class="desk">
            <thead>
              <tr>
                <th>{t('time')}</th>
                <th>{t('flow_event')}</th>
                <th>{t('version')}</th>
                <th>{t('due')}</th>
                <th>{t('flow_by')}</th>
                <th>{t('shard')}</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((entry) => (
                <tr key={keyOf(entry)}>
                  <td>
                    <Time class="num" at={entry.at} text={exactClock} />
                  </td>
                  <td>
                    <Event entry={entry} />
                  </td>
                  <td class="mono soft">{entry.version ?? ''}</td>
                  <td>
                    {entry.dueAt === null ? '' : <Time class="num soft" at={entry.dueAt} text={exactClock} />}
                  </td>
                  <td class="soft">{byOf(entry)}</td>
                  <td class="mono faint">{entry.place ?? ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <ol class="list phone-only">
            {entries.map((entry) => (
              <li key={keyOf(entry)}>
                <Event entry={entry} />
                <span class="grow">{byOf(entry)}</span>
                <Time class="faint num" at={entry.at} />
              </li>
            ))}
          </ol>
        </>
      )}
    </Card>
  );
}

const keyOf = ({ at, event, version }: Entry): string => `${at} ${event} ${version}`;

function Event({ entry: { event, attempt } }: { entry: Entry }) {
  const word = wordOf(`flow_${event}`, event);
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
