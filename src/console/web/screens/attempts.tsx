// Recent attempts of a topic: a card of its overview, and the tab Attempts. They are a sample of one instance
// that begins when dq-upkeep starts; the note of the card says so.

import { usePoll } from '../api/poll.ts';
import type { AttemptSampleJson, AttemptsJson, TopicJson } from '../api/types.ts';
import { clock, duration, number } from '../format.ts';
import { Card, type Colour, Empty, JobLink, LoadError, Pill, Waiting } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { place, setQuery } from '../router.ts';
import { t } from '../words/words.ts';

const outcomes = ['', 'failed', 'delivered'] as const;
const words = { '': 'attempts_all', failed: 'attempts_failed', delivered: 'job_done' } as const;

/** `most`: rows. The tab has a column for the lateness. */
export function RecentAttempts({
  topic,
  most,
  tab = false,
}: {
  topic: TopicJson;
  most: number;
  tab?: boolean;
}) {
  const outcome = place.value.query.get('outcome') ?? '';
  const { data, error, refresh } = usePoll<AttemptsJson>('/v1/attempts', 5_000, {
    topic: topic.topic,
    outcome,
    limit: String(most),
  });
  return (
    <Card
      width={12}
      title={t('recent_attempts')}
      note={
        data === null ? undefined : (
          <Time at={data.since} text={(ms) => t('attempts_since', { time: clock(ms), host: data.host })} />
        )
      }
      end={
        <span class="fields">
          {outcomes.map((one) => (
            <button
              key={one}
              type="button"
              class={one === outcome ? 'field on' : 'field'}
              aria-pressed={one === outcome}
              onClick={() => setQuery({ outcome: one })}
            >
              {t(words[one])}
            </button>
          ))}
        </span>
      }
    >
      <LoadError error={error} what={t('recent_attempts')} retry={refresh} />
      {data === null ? (
        <Waiting error={error} />
      ) : data.items.length === 0 ? (
        <Empty>{t(outcome === '' ? 'attempts_none' : 'attempts_none_such')}</Empty>
      ) : (
        <Rows attempts={data.items} most={topic.maxAttempts} tab={tab} />
      )}
    </Card>
  );
}

/** Slow replies and rejected ones differ: amber where the receiver answered as usual and the rule said no. */
function Outcome({ outcome, reason, status }: AttemptSampleJson) {
  if (outcome === 'delivered') return <Pill colour="done">{status}</Pill>;
  const colour: Colour = reason === 'rule' || reason === 'empty_reply' ? 'retry' : 'dead';
  return <Pill colour={colour}>{reason === 'status' ? status : reason}</Pill>;
}

function Rows({
  attempts,
  most,
  tab,
}: {
  attempts: readonly AttemptSampleJson[];
  most: number;
  tab: boolean;
}) {
  const keyOf = ({ id, version, attempt }: AttemptSampleJson) => `${id} ${version} ${attempt}`;
  const replyOf = ({ detail, replyExcerpt }: AttemptSampleJson) => (detail === '' ? replyExcerpt : detail);
  return (
    <>
      <table class="desk">
        <thead>
          <tr>
            <th class="w2">{t('attempt_outcome')}</th>
            <th class="w3">{t('job')}</th>
            <th class="right w0">{t('attempt_column')}</th>
            {tab ? <th class="right w0">{t('attempt_lateness')}</th> : null}
            <th class="right w0">{t('attempt_duration')}</th>
            <th class="w4">{t('reply')}</th>
            <th class="right w0">{t('attempt_time')}</th>
          </tr>
        </thead>
        <tbody>
          {attempts.map((attempt) => (
            <tr key={keyOf(attempt)}>
              <td>
                <Outcome {...attempt} />
              </td>
              <td class="cut">
                <JobLink {...attempt} />
              </td>
              <td class="right">{`${attempt.attempt}/${most}`}</td>
              {tab ? <td class="right nowrap">{duration(attempt.latenessMs)}</td> : null}
              <td class="right nowrap">{`${number(attempt.durationMs)} ${t('unit_ms')}`}</td>
              <td class="cut mono faint">{replyOf(attempt)}</td>
              <td class="right faint nowrap">
                <Time at={attempt.startedAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {attempts.map((attempt) => (
          <li key={keyOf(attempt)}>
            <div class="row">
              <JobLink {...attempt} />
              <Outcome {...attempt} />
            </div>
            <div class="row faint">
              <span class="num">
                {t('attempt_of', {
                  n: attempt.attempt,
                  most,
                  time: `${number(attempt.durationMs)} ${t('unit_ms')}`,
                })}
              </span>
              <Time class="num" at={attempt.startedAt} />
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
