// The journal on the page Store: spool, lag, instances and restores, and the question that starts a restore.

import type { JournalInstanceJson, JournalJson, JournalRestoreJson } from '../../../contract/api/journal.ts';
import { type OverdueChoice, overdueChoices } from '../../../core/operation.ts';
import { hasNews } from '../../../core/restore-news.ts';
import { CallError } from '../api/call.ts';
import { may } from '../api/session.ts';
import { bytes, duration, number, relative } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { Check, type Draft, draftOf, Field } from '../parts/form.tsx';
import { List } from '../parts/list.tsx';
import { start } from '../parts/operations.tsx';
import { Button, Card, type Colour, Facts, Meter, Pill, Select } from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';

/** The newest ones; `dq journal` lists more. */
const restoresShown = 5;

export function Journal({ journal }: { journal: JournalJson }) {
  const { mode, spoolBytes, spoolBytesMax, late, damaged, lagMs, instances, restores } = journal;
  if (mode === 'off')
    return (
      <Card title={t('journal')} end={<Pill colour="retry">{t('journal_is_off')}</Pill>}>
        <p class="body">{t('journal_off')}</p>
      </Card>
    );
  const share = spoolBytes / spoolBytesMax;
  const shown = (restores ?? []).filter((one) => hasNews(one, Date.now())).slice(0, restoresShown);
  return (
    <Card
      title={t('journal')}
      note={t('journal_sync')}
      end={<Pill colour={share > 1 ? 'dead' : 'done'}>{mode}</Pill>}
    >
      <div class="body stack">
        <Meter
          share={share}
          colour={share > 0.75 ? 'dead' : share > 0.25 ? 'retry' : 'ready'}
          label={t('journal_spool', { used: bytes(spoolBytes), all: bytes(spoolBytesMax) })}
        />
        <Facts
          rows={[
            [t('journal_lag'), lagMs === null ? t('currently_unknown') : duration(lagMs)],
            late > 0 && [t('journal_late'), number(late)],
            damaged > 0 && [t('journal_damaged'), number(damaged)],
            ...(instances ?? []).map(
              (one) =>
                [one.self ? t('journal_here', { host: one.host }) : one.host, instanceText(one)] as const,
            ),
          ]}
        />
        {instances === null || restores === null ? <p class="wrong">{t('journal_no_mysql')}</p> : null}
        {may('operate') ? (
          <div class="fields">
            <Button look="s" onClick={askRestore}>
              {t('journal_restore')}…
            </Button>
          </div>
        ) : null}
      </div>
      {shown.length === 0 ? null : <Restores restores={shown} />}
    </Card>
  );
}

const instanceText = ({ seenMs, spoolBytes, state }: JournalInstanceJson): string => {
  const sign = t('journal_instance', { time: duration(seenMs), bytes: bytes(spoolBytes) });
  return state === 'lives' ? sign : `${sign} · ${t(`journal_${state}`)}`;
};

const colours: Readonly<Record<JournalRestoreJson['state'], Colour>> = {
  open: 'running',
  done: 'done',
  failed: 'dead',
};

const states = { open: 'op_state_running', done: 'op_state_finished', failed: 'op_state_failed' } as const;

const Restores = ({ restores }: { restores: readonly JournalRestoreJson[] }) => (
  <List
    items={restores}
    empty=""
    keyOf={({ no }) => no}
    columns={{
      what: {
        head: t('journal_restores'),
        look: 'cut',
        width: 'w4',
        cell: ({ kind, about }) => (
          <span>
            {t(`journal_${kind}`)} <span class="mono faint">{about}</span>
          </span>
        ),
      },
      state: {
        head: t('state'),
        cell: ({ state }) => <Pill colour={colours[state]}>{t(states[state])}</Pill>,
      },
      counts: {
        head: t('jobs'),
        look: 'right nowrap',
        cell: ({ put, removed }) => t('journal_counts', { put: number(put), removed: number(removed) }),
      },
      when: {
        head: t('op_started_at'),
        look: 'right soft nowrap',
        cell: ({ begunAt }) => <Time at={begunAt} text={relative} />,
      },
    }}
    card={{ row: ['what', 'state'], faint: ['counts', 'when'] }}
  />
);

interface Restoring {
  readonly topic: string;
  readonly isAll: boolean;
  readonly overdue: OverdueChoice;
  readonly dryRun: boolean;
}

function RestoreFields({ draft: { value, set } }: { draft: Draft<Restoring> }) {
  const { topic, isAll, overdue, dryRun } = value;
  const scope = (all: boolean, label: string) => (
    <Check group="scope" isOn={isAll === all} onChange={() => set({ isAll: all })}>
      {label}
    </Check>
  );
  return (
    <>
      <p>{t('journal_restore_text')}</p>
      <fieldset>
        <legend class="sr">{t('topic')}</legend>
        {scope(false, t('journal_one_topic'))}
        {may('admin') ? scope(true, t('journal_every_topic')) : null}
      </fieldset>
      {isAll ? null : <Field label={t('topic')} value={topic} onType={(name) => set({ topic: name })} />}
      <Select
        label={t('journal_overdue')}
        value={overdue}
        options={overdueChoices.map((choice) => [choice, t(`journal_overdue_${choice}`)] as const)}
        onChoose={(choice) => set({ overdue: choice })}
      />
      <fieldset>
        <legend class="sr">{t('journal_count_only')}</legend>
        <Check isOn={dryRun} onChange={() => set({ dryRun: !dryRun })}>
          {t('journal_count_only')}
        </Check>
      </fieldset>
    </>
  );
}

function askRestore(): void {
  const draft = draftOf<Restoring>({ topic: '', isAll: false, overdue: 'fire', dryRun: true });
  ask({
    title: t('op_question', { title: t('journal_restore') }),
    body: <RestoreFields draft={draft} />,
    action: t('op_restore'),
    run: async () => {
      const { isAll, overdue, dryRun } = draft.value;
      const topic = draft.value.topic.trim();
      if (!isAll && topic === '') throw new CallError(400, 'shown', t('journal_topic_missing'));
      const filter = isAll ? {} : { topic };
      await start([{ kind: 'restore', filter, overdue, ...(dryRun ? { dryRun } : {}) }]);
    },
  });
}
