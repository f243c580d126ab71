// Endpoint card of a topic: how the origin of its callback URL, or its broker, answers now, as the notifiers of this instance
// count it. It covers all visible topics that call the same origin.

import { usePoll } from '../api/poll.ts';
import type { EndpointJson, EndpointsJson } from '../api/types.ts';
import { duration, number, relative, useSecond } from '../format.ts';
import { Card, type Colour, Empty, Facts, LoadError, Pill, TopicLink, Waiting } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';

const colours: Readonly<Record<EndpointJson['state'], Colour>> = {
  healthy: 'done',
  failing: 'dead',
  probing: 'retry',
};

export function EndpointCard({ topic, isBroker }: { topic: string; isBroker: boolean }) {
  const { data, error, refresh } = usePoll<EndpointsJson>('/v1/endpoints', 5_000, { topic });
  useSecond();
  const [endpoint] = data?.items ?? [];
  const title = t(isBroker ? 'field_broker' : 'endpoint');
  return (
    <Card
      width={4}
      fill
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
      <LoadError error={error} what={title} retry={refresh} />
      {data === null ? (
        <Waiting rows={3} error={error} />
      ) : endpoint === undefined ? (
        <Empty>{t('endpoint_uncalled')}</Empty>
      ) : (
        <div class="body">
          <Facts rows={rowsOf(endpoint, topic)} />
          {data.silent.length === 0 ? null : (
            <p class="faint">{t('endpoint_silent', { names: data.silent.join(', ') })}</p>
          )}
        </div>
      )}
    </Card>
  );
}

/** Begins the origin of a broker. */
const brokerMark = 'broker:';

function rowsOf(endpoint: EndpointJson, topic: string): Parameters<typeof Facts>[0]['rows'] {
  const { attempts, successRate, p95Ms, lastFailureAt, lastReason, failuresInRow } = endpoint;
  const others = endpoint.topics.filter((name) => name !== topic);
  const when = (at: string | null) => (at === null ? t('endpoint_never') : <Time at={at} text={relative} />);
  return [
    ...(endpoint.origin.startsWith(brokerMark)
      ? [[t('field_broker'), endpoint.origin.slice(brokerMark.length), true] as const]
      : [[t('endpoint_origin'), endpoint.origin, true] as const]),
    [
      t('success_rate_5'),
      successRate === null
        ? '–'
        : `${percent(successRate)} · ${t('of_attempts', { count: number(attempts) })}`,
    ],
    [t('duration_p95'), p95Ms === null ? '–' : duration(p95Ms)],
    [t('in_flight'), number(endpoint.inFlight)],
    [t('failures_in_row'), number(failuresInRow)],
    [t('endpoint_last_success'), when(endpoint.lastSuccessAt)],
    [
      t('endpoint_last_failure'),
      lastReason === null ? (
        t('endpoint_never')
      ) : (
        <>
          {when(lastFailureAt)} · {lastReason}
        </>
      ),
    ],
    ...(others.length === 0
      ? []
      : [
          [
            t('also_called_by'),
            <>
              {others.slice(0, 5).map((name, n) => (
                <span key={name} class="linked">
                  {n === 0 ? '' : ', '}
                  <TopicLink topic={name} />
                </span>
              ))}{' '}
              {endpoint.topicCount > 6 ? t('and_more', { count: endpoint.topicCount - 6 }) : null}
            </>,
          ] as const,
        ]),
  ];
}

/** Rounded down: 99.99 % is not 100 %. */
const percent = (share: number): string => `${number(Math.floor(share * 1_000) / 10)} %`;
