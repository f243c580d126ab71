// The cards of series that the overview and a topic share: traffic, lateness, failed attempts by reason. The
// query of the page has their range.

import type { SeriesColumn, SeriesJson } from '../../../contract/api/series.ts';
import type { CountsJson } from '../../../contract/api/stats.ts';
import type { CallError } from '../api/call.ts';
import { type Polled, usePoll } from '../api/poll.ts';
import { Plot } from '../charts/plot.tsx';
import { duration, number, percent, shortNumber } from '../format.ts';
import { Card, Empty, Waiting } from '../parts/parts.tsx';
import { hrefQuery, place } from '../router.ts';
import { t } from '../words/words.ts';

/** Steps of a range: some hundred points, more than a chart is wide show nothing more. */
const stepOf: Readonly<Record<Range | '5m', string | undefined>> = {
  '5m': '1m',
  '1h': '1m',
  '6h': undefined,
  '24h': '10m',
  '7d': '2h',
  '30d': '2h',
};

/** dq-upkeep writes once a minute. */
const pollMs = 15_000;

/** `topic` undefined: all topics, for sessions that may see every one (else 403). */
export function useSeries(range: Range | '5m', topic?: string): Polled<SeriesJson> {
  return usePoll<SeriesJson>('/v1/series', pollMs, { from: range, topic, step: stepOf[range] });
}

/** This session may not see the series of all topics, or the daemon has no series. */
export const isAbsent = (error: CallError | null): boolean => error?.status === 403 || error?.status === 404;

const perStep = (series: SeriesJson | null): string =>
  series === null
    ? ''
    : series.step === 60
      ? t('each_minute')
      : t('per_step', { time: duration(series.step * 1_000) });

export function Throughput({ series }: { series: SeriesJson | null }) {
  const column = (name: 'pushed' | 'delivered' | 'retried' | 'dead'): SeriesColumn => series?.[name] ?? [];
  return (
    <Plot
      title={t('throughput')}
      note={perStep(series)}
      width={8}
      at={series?.at ?? null}
      isUnfinished={series?.unfinished ?? false}
      valueText={shortNumber}
      empty={t('series_none')}
      lines={[
        { label: t('delivered'), colour: 'done', values: column('delivered'), isFilled: true },
        { label: t('pushed'), colour: 'delayed', values: column('pushed') },
        { label: t('retried'), colour: 'retry', values: column('retried') },
        { label: t('dead_letters'), colour: 'dead', values: column('dead') },
      ]}
    />
  );
}

export function Traffic({ series, range }: { series: SeriesJson | null; range: Range }) {
  const column = (name: 'pushed' | 'delivered' | 'failed'): SeriesColumn => series?.[name] ?? [];
  const any = series !== null && series.totals.pushed + series.totals.delivered + series.totals.failed > 0;
  return (
    <Plot
      title={t('traffic')}
      note={perStep(series)}
      width={8}
      end={<RangeChoice value={range} />}
      at={series?.at ?? null}
      isUnfinished={series?.unfinished ?? false}
      valueText={shortNumber}
      empty={t(series?.totals.recordedSteps === 0 ? 'series_none' : 'traffic_none')}
      lines={
        series !== null && !any
          ? []
          : [
              { label: t('delivered'), colour: 'done', values: column('delivered'), isFilled: true },
              { label: t('pushed'), colour: 'delayed', values: column('pushed') },
              { label: t('failed_attempts'), colour: 'dead', values: column('failed') },
            ]
      }
    />
  );
}

export function Lateness({ series, width }: { series: SeriesJson | null; width: 4 | 6 }) {
  const column = (name: 'p50' | 'p95' | 'p99'): SeriesColumn => series?.lateness[name] ?? [];
  return (
    <Plot
      title={t('lateness')}
      note={t('lateness_note')}
      width={width}
      at={series?.at ?? null}
      isUnfinished={series?.unfinished ?? false}
      isLog
      valueText={duration}
      empty={t('series_no_calls')}
      lines={[
        { label: 'p50', colour: 'quiet', values: column('p50') },
        { label: 'p95', colour: 'ready', values: column('p95') },
        { label: 'p99', colour: 'running', values: column('p99') },
      ]}
    />
  );
}

export function FailedAttempts({ series, width = 4 }: { series: SeriesJson | null; width?: 4 | 6 }) {
  if (series === null)
    return (
      <Card width={width} fill title={t('failed_attempts')}>
        <Waiting rows={4} />
      </Card>
    );
  const { reasons, totals } = series;
  const most = reasons[0]?.total ?? 1;
  return (
    <Card
      width={width}
      fill
      title={t('failed_attempts')}
      note={totals.failed === 0 ? undefined : t('failed_in_range', { count: number(totals.failed) })}
    >
      {totals.recordedSteps === 0 ? (
        <Empty>{t('series_none')}</Empty>
      ) : reasons.length === 0 ? (
        <Empty>{t('failed_none')}</Empty>
      ) : (
        <div class="body">
          <ul class="reasons">
            {reasons.map(({ reason, status, total }) => {
              const name = reasonName(reason, status);
              return (
                <li key={name}>
                  <b class="mono">{name}</b>
                  <span class="num">{number(total)}</span>
                  <svg
                    class="meter"
                    viewBox="0 0 100 6"
                    preserveAspectRatio="none"
                    role="img"
                    aria-label={`${name}: ${number(total)}`}
                  >
                    <rect
                      class={reason === 'rule' ? 'fill-retry' : 'fill-dead'}
                      width={Math.max(0.5, (100 * total) / most)}
                      height="6"
                      rx="2"
                    />
                  </svg>
                </li>
              );
            })}
          </ul>
        </div>
      )}
    </Card>
  );
}

export const reasonName = (reason: string, status: number | null): string =>
  status === null ? reason : `${reason} ${status}`;

/** Of the attempts of today; "–" without one. */
export function successOf({ delivered, retried, dead }: CountsJson): string {
  const attempts = delivered + retried + dead;
  return attempts === 0 ? '–' : `${percent(delivered / attempts)} %`;
}

const ranges = ['1h', '6h', '24h', '7d', '30d'] as const;
export type Range = (typeof ranges)[number];

/** Of the address; `usual` where it names none. */
export function rangeOf(usual: Range = '1h'): Range {
  const given = place.value.query.get('range');
  return ranges.find((range) => range === given) ?? usual;
}

export function RangeChoice({ value, most = '30d' }: { value: Range; most?: Range }) {
  const { path, query } = place.value;
  return (
    <nav class="seg" aria-label={t('range')}>
      {ranges.slice(0, ranges.indexOf(most) + 1).map((range) => (
        <a
          key={range}
          href={hrefQuery(path, { ...Object.fromEntries(query), range })}
          aria-current={range === value ? 'true' : undefined}
        >
          {t(`range_${range}`)}
        </a>
      ))}
    </nav>
  );
}
