// How calls of a topic end. Its endpoint: how the origin of its callback URL, or its broker, answers now, as
// the notifiers of this instance count it, over all visible topics that call the same origin. Its recent
// attempts: a card of its overview, and the tab Attempts. They are a sample of one instance that begins when
// dq-upkeep starts; the note of the card says so.

import type { ComponentChildren } from 'preact';
import type {
  AttemptSampleJson,
  AttemptsJson,
  EndpointJson,
  EndpointsJson,
} from '../../../contract/api/attempt.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { usePoll } from '../api/poll.ts';
import { clock, dots, duration, number, relative, useSecond } from '../format.ts';
import { readable } from '../parts/json-view.tsx';
import { type Column, List, useOpenRow } from '../parts/list.tsx';
import {
  Card,
  Code,
  type Colour,
  Empty,
  type Fact,
  Facts,
  JobLink,
  LoadError,
  Loaded,
  Pill,
  Toggle,
  TopicLink,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { place, setQuery } from '../router.ts';
import { t } from '../words/words.ts';
import { attemptColour, shortResult } from './job-attempts.tsx';

const colours: Readonly<Record<EndpointJson['state'], Colour>> = {
  healthy: 'done',
  failing: 'dead',
  probing: 'retry',
};

export function EndpointCard({ topic, isBroker }: { topic: string; isBroker: boolean }) {
  const poll = usePoll<EndpointsJson>('/v1/endpoints', 5_000, { topic });
  const { data } = poll;
  useSecond();
  const [endpoint] = data?.items ?? [];
  const title = t(isBroker ? 'field_broker' : 'endpoint');
  return (
    <Card
      title={title}
      note={data === null ? undefined : t('endpoint_note', { host: data.host })}
      end={
        endpoint === undefined ? undefined : (
          <Pill colour={colours[endpoint.state]} ring={endpoint.state === 'probing'}>
            {t(`endpoint_${endpoint.state}`)}
          </Pill>
        )
      }
    >
      <Loaded from={poll} what={title} rows={3}>
        {({ silent }) =>
          endpoint === undefined ? (
            <Empty>{t('endpoint_uncalled')}</Empty>
          ) : (
            <div class="body">
              <Facts rows={rowsOf(endpoint, topic)} />
              {silent.length === 0 ? null : (
                <p class="faint">{t('endpoint_silent', { names: silent.join(', ') })}</p>
              )}
            </div>
          )
        }
      </Loaded>
    </Card>
  );
}

/** Begins the origin of a broker. */
const brokerMark = 'broker:';

function rowsOf(endpoint: EndpointJson, topic: string): readonly Fact[] {
  const { origin, attempts, successRate, p95Ms, lastFailureAt, lastReason, failuresInRow } = endpoint;
  const others = endpoint.topics.filter((name) => name !== topic);
  const when = (at: string | null) => (at === null ? t('endpoint_never') : <Time at={at} text={relative} />);
  const shares =
    successRate === null ? '–' : dots(percent(successRate), t('of_attempts', { count: number(attempts) }));
  return [
    origin.startsWith(brokerMark)
      ? [t('field_broker'), origin.slice(brokerMark.length), true]
      : [t('address'), origin, true],
    [t('success_5m'), shares],
    [t('duration_p95'), p95Ms === null ? '–' : duration(p95Ms)],
    [t('in_flight'), number(endpoint.inFlight)],
    [t('failures_in_row'), number(failuresInRow)],
    [t('endpoint_last_success'), when(endpoint.lastSuccessAt)],
    [
      t('endpoint_last_failure'),
      lastReason === null ? t('endpoint_never') : [when(lastFailureAt), ` · ${lastReason}`],
    ],
    others.length > 0 && [
      t('also_called_by'),
      <Others key="others" names={others} count={endpoint.topicCount} />,
    ],
  ];
}

/** `count`: all topics that call the endpoint. */
const Others = ({ names, count }: { names: readonly string[]; count: number }) => (
  <>
    {names.slice(0, 5).map((name, n) => (
      <span key={name} class="linked">
        {n === 0 ? '' : ', '}
        <TopicLink topic={name} />
      </span>
    ))}{' '}
    {count > 6 ? t('and_more', { count: count - 6 }) : null}
  </>
);

/** Rounded down: 99.99 % is not 100 %. */
const percent = (share: number): string => `${number(Math.floor(share * 1_000) / 10)} %`;

const outcomes = ['', 'failed', 'delivered'] as const;
const words = { '': 'all', failed: 'failed', delivered: 'job_done' } as const;

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
  const { isOpen, opener } = useOpenRow();
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
            <Toggle key={one} isOn={one === outcome} onClick={() => setQuery({ outcome: one })}>
              {t(words[one])}
            </Toggle>
          ))}
        </span>
      }
    >
      <LoadError error={error} what={t('recent_attempts')} retry={refresh} />
      <List
        items={data?.items ?? null}
        error={error}
        empty={t(outcome === '' ? 'attempts_none' : 'attempts_none_such')}
        keyOf={keyOf}
        detail={(one) => (isOpen(keyOf(one)) ? <Code>{saidBy(one)}</Code> : null)}
        columns={columnsOf(topic.maxAttempts, tab, (one) =>
          opener(keyOf(one), saidBy(one).replaceAll('\n', ' ')),
        )}
        card={{ row: ['job', 'outcome'], soft: ['reply'], faint: ['number', 'time'] }}
      />
    </Card>
  );
}

function Outcome(attempt: AttemptSampleJson) {
  return <Pill colour={attemptColour(attempt)}>{shortResult(attempt)}</Pill>;
}

const keyOf = ({ id, version, attempt }: AttemptSampleJson): string => `${id} ${version} ${attempt}`;

/** What the receiver said, or why it said nothing. */
const saidBy = ({ detail, replyExcerpt }: AttemptSampleJson): string => dots(detail, readable(replyExcerpt));

/** `most`: attempts of a job. */
function columnsOf(most: number, tab: boolean, reply: (one: AttemptSampleJson) => ComponentChildren) {
  const msOf = ({ durationMs }: AttemptSampleJson): string => `${number(durationMs)} ${t('unit_ms')}`;
  return {
    outcome: { head: t('attempt_outcome'), width: 'w2', cell: Outcome },
    job: { head: t('job'), look: 'cut id', width: 'w3', cell: JobLink },
    number: {
      head: t('attempt_column'),
      look: 'right',
      width: 'w0',
      cell: ({ attempt }) => `${attempt}/${most}`,
      card: (one) => t('attempt_of', { n: one.attempt, most, time: msOf(one) }),
    },
    lateness: {
      head: t('lateness'),
      look: 'right nowrap',
      width: 'w0',
      isOff: !tab,
      cell: ({ latenessMs }) => duration(latenessMs),
    },
    duration: { head: t('attempt_duration'), look: 'right nowrap', width: 'w0', cell: msOf },
    reply: { head: t('reply'), look: 'cut mono faint', width: 'w4', cell: reply },
    time: {
      head: t('time'),
      look: 'right faint nowrap',
      width: 'w0',
      cell: ({ startedAt }) => <Time at={startedAt} />,
    },
  } satisfies Readonly<Record<string, Column<AttemptSampleJson>>>;
}
