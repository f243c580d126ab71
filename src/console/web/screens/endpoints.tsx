// Endpoint card of a topic: how the origin of its callback URL, or its broker, answers now, as the notifiers of this instance
// count it. It covers all visible topics that call the same origin.

import type { EndpointJson, EndpointsJson } from '../../../contract/api/attempt.ts';
import { usePoll } from '../api/poll.ts';
import { dots, duration, number, relative, useSecond } from '../format.ts';
import { Card, type Colour, Empty, type Fact, Facts, Loaded, Pill, TopicLink } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';

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
