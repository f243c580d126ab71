// Store: durability, the files of the embedded store, or a card per Redis with its memory and its jobs.

import type { JournalJson } from '../../../contract/api/journal.ts';
import type { ShardInfoJson, StoreJson } from '../../../contract/api/store.ts';
import { CallError, call } from '../api/call.ts';
import { usePoll } from '../api/poll.ts';
import { may } from '../api/session.ts';
import { bytes, number, relative } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { type Draft, draftOf, Field } from '../parts/form.tsx';
import {
  Button,
  Card,
  type Colour,
  Facts,
  Head,
  Loaded,
  Meter,
  Pill,
  Select,
  Strip,
  toast,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';
import { Journal } from './journal.tsx';

type ShardState = StoreJson['shards'][number];

export function Screen() {
  const poll = usePoll<StoreJson>('/v1/store', 5_000);
  const { data, refresh } = poll;
  const mayAdd = data?.kind === 'redis' && may('admin');
  return (
    <>
      <Head
        title={t('store')}
        sub={data === null ? undefined : subOf(data)}
        actions={mayAdd ? <Button onClick={() => askAdd(refresh)}>{t('add_shard')}…</Button> : undefined}
      />
      <Loaded from={poll} what={t('store')}>
        {(store) => (
          <>
            {store.warnings.map((warning) => (
              <Strip key={warning} tone={store.ok ? 'warn' : 'bad'} role={store.ok ? 'note' : 'alert'}>
                {warning}
              </Strip>
            ))}
            {store.kind === 'embedded' ? (
              <Embedded store={store} />
            ) : (
              <Shards store={store} changed={refresh} />
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

function subOf({ kind, list, shards, registry }: StoreJson): string {
  const where = t('store_registry', { place: registry === 'embedded' ? t('registry_embedded') : registry });
  if (kind === 'embedded') return `${t('store_embedded_note')} ${where}`;
  const draining = shards.filter(({ state }) => state === 'draining').length;
  const facts = { active: number(shards.length - draining), draining: number(draining), list: list ?? 0 };
  return `${t(draining === 0 ? 'store_shards' : 'store_shards_draining', facts)} ${where}`;
}

const fullColour = (share: number): Colour => (share > 0.9 ? 'dead' : share > 0.75 ? 'retry' : 'ready');
const latency = (ms: number): string => `${number(Math.round(ms * 10) / 10)} ${t('unit_ms')}`;

function Embedded({ store: { ok, durability, embedded, quarantined } }: { store: StoreJson }) {
  const used = embedded === null ? 0 : 1 - embedded.freeBytes / embedded.diskBytes;
  return (
    <Card
      title={t('embedded_store')}
      note={embedded === null ? undefined : <span class="mono">{embedded.path}</span>}
      end={<Pill colour={ok ? 'done' : 'dead'}>{t(ok ? 'store_works' : 'store_fails')}</Pill>}
      look="body stack"
    >
      {embedded === null ? null : (
        <Meter
          share={used}
          colour={fullColour(used)}
          label={t('disk_free', {
            free: bytes(embedded.freeBytes),
            used: bytes(embedded.diskBytes - embedded.freeBytes),
            all: bytes(embedded.diskBytes),
          })}
        />
      )}
      <Facts
        rows={[
          [t('durability'), durability === null ? t('currently_unknown') : t('durability_embedded')],
          embedded !== null && [t('store_file'), bytes(embedded.fileBytes)],
          embedded !== null && [t('store_wal'), bytes(embedded.walBytes)],
          embedded !== null && [
            t('fsync_p99'),
            embedded.fsyncP99Ms === null ? t('not_measured') : latency(embedded.fsyncP99Ms),
          ],
          quarantined > 0 && [t('quarantined'), number(quarantined)],
        ]}
      />
    </Card>
  );
}

/** The journal needs the right to read every topic; without it the page has only the shards. */
function Shards({ store: { shards, journal: mode }, changed }: { store: StoreJson; changed: () => void }) {
  const { data: journal } = usePoll<JournalJson>('/v1/journal', 5_000);
  return (
    <>
      <div class="cols shards">
        {shards.map((shard) => (
          <ShardCard key={shard.id} shard={shard} journal={mode} changed={changed} />
        ))}
      </div>
      {journal === null ? null : <Journal journal={journal} />}
    </>
  );
}

const nameOf = ({ id }: ShardState): string => t('shard_name', { id: id.slice(0, 6) });

interface ShardParts {
  readonly shard: ShardState;
  readonly journal: StoreJson['journal'];
  readonly changed: () => void;
}

function ShardCard({ shard, journal, changed }: ShardParts) {
  const { url, state, jobs, trouble, info } = shard;
  const answers = jobs !== null;
  return (
    <Card
      width={4}
      title={nameOf(shard)}
      note={<span class="mono">{url.replace(/^\w+:\/\//, '')}</span>}
      end={
        trouble === null ? (
          <Pill colour={state === 'active' ? 'done' : 'retry'}>
            {t(state === 'active' ? 'state_active' : 'shard_draining')}
          </Pill>
        ) : (
          <Pill colour="dead">{t(answers ? 'shard_rejects' : 'shard_silent')}</Pill>
        )
      }
      look="body stack"
    >
      {trouble === null || trouble === 'does not answer' ? null : <p class="wrong">{trouble}</p>}
      {state === 'draining' && jobs !== null ? <p>{t('jobs_left', { count: number(jobs) })}</p> : null}
      {info === null ? null : <Info info={info} journal={journal} jobs={jobs} />}
      {info !== null && !answers ? (
        <p class="faint">
          <Time at={info.readAt} text={(ms) => t('values_of', { time: relative(ms) })} />
        </p>
      ) : null}
      {may('admin') ? <ShardActions shard={shard} journal={journal} changed={changed} /> : null}
    </Card>
  );
}

type InfoParts = { info: ShardInfoJson; journal: StoreJson['journal']; jobs: number | null };

function Info({ info, journal, jobs }: InfoParts) {
  const { usedBytes, maxBytes, eviction } = info;
  const share = maxBytes === null ? 0 : usedBytes / maxBytes;
  return (
    <>
      {maxBytes === null ? null : (
        <Meter
          share={share}
          colour={fullColour(share)}
          label={t('memory_of', { used: bytes(usedBytes), all: bytes(maxBytes) })}
        />
      )}
      <Facts
        rows={[
          jobs !== null && [t('jobs'), number(jobs)],
          maxBytes === null && [t('memory'), t('memory_unlimited', { used: bytes(usedBytes) })],
          [t('durability'), t(`durability_${journal === 'off' ? info.persistence : journal}`)],
          [t('eviction'), eviction ?? t('currently_unknown')],
          [t('latency'), latency(info.latencyMs)],
          [
            t('version'),
            info.nodes > 1 ? t('version_nodes', { version: info.version, nodes: info.nodes }) : info.version,
          ],
          [t('clients'), number(info.clients)],
          [t('ops_per_second'), number(info.opsPerSecond)],
          [t('quarantined'), number(info.quarantined)],
        ]}
      />
    </>
  );
}

function ShardActions({ shard, journal, changed }: ShardParts) {
  if (shard.state === 'active')
    return (
      <div class="fields">
        <Button look="s" onClick={() => askDrain(shard, changed)}>
          {t('drain')}…
        </Button>
      </div>
    );
  return (
    <div class="fields">
      <Button look="s danger" onClick={() => askRemove(shard, journal !== 'off', changed)}>
        {t('remove')}…
      </Button>
    </div>
  );
}

/** Texts of the codes that these calls add to the usual ones. */
async function explained(work: Promise<unknown>, address: string): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    const { code, message } = error;
    if (code !== 'shard_unreachable' && code !== 'shard_refused' && code !== 'shard_in_use') throw error;
    const text = t(code, { address, detail: message });
    // Its text is in the page's language already, so it is not looked up by its code again.
    const detail = code === 'shard_refused' ? text : `${text} (${message})`;
    throw new CallError(error.status, 'shown', detail, error.problem);
  }
}

function askDrain(shard: ShardState, changed: () => void): void {
  ask({
    title: t('drain_question', { name: nameOf(shard) }),
    body: t('drain_text', { count: shard.jobs === null ? '?' : number(shard.jobs) }),
    action: t('drain'),
    run: async () => {
      await explained(call('POST', `/v1/shards/${encodeURIComponent(shard.id)}/drain`), shard.url);
      changed();
    },
  });
}

function askRemove(shard: ShardState, hasJournal: boolean, changed: () => void): void {
  const isLost = shard.jobs === null;
  ask({
    title: t('remove_shard_question', { name: nameOf(shard) }),
    body: isLost
      ? t(hasJournal ? 'remove_lost_journal_text' : 'remove_lost_text', { id: shard.id })
      : t('remove_shard_text'),
    action: t('remove'),
    danger: true,
    typed: isLost ? shard.id : undefined,
    run: async () => {
      const query = { jobs: isLost ? 'lost' : '' };
      await explained(call('DELETE', `/v1/shards/${encodeURIComponent(shard.id)}`, { query }), shard.url);
      toast(t('done'));
      changed();
    },
  });
}

const emptyShard = { scheme: 'redis', host: '', port: '6379', user: '', password: '', database: '0' };
type ShardUrl = typeof emptyShard;

function urlOf({ scheme, host, port, user, password, database }: ShardUrl): string {
  const login =
    user === '' && password === '' ? '' : `${encodeURIComponent(user)}:${encodeURIComponent(password)}@`;
  const name = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
  return `${scheme}://${login}${name}:${port}/${database}`;
}

function ShardFields({ draft: { value, set } }: { draft: Draft<ShardUrl> }) {
  return (
    <div class="form shard-form">
      <p class="wide">{t('add_shard_text')}</p>
      <Select
        label={t('scheme')}
        value={value.scheme}
        options={[
          ['redis', 'redis'],
          ['rediss', 'rediss'],
        ]}
        onChoose={(scheme) => set({ scheme })}
      />
      {(['host', 'port', 'database', 'user', 'password'] as const).map((name) => (
        <Field
          key={name}
          label={t(name)}
          type={name === 'password' ? 'password' : 'text'}
          value={value[name]}
          onType={(text) => set({ [name]: text })}
        />
      ))}
    </div>
  );
}

function askAdd(changed: () => void): void {
  const draft = draftOf(emptyShard);
  ask({
    title: t('add_shard_question'),
    body: <ShardFields draft={draft} />,
    action: t('add_shard'),
    run: async () => {
      const { host, port } = draft.value;
      const adding = call('POST', '/v1/shards', { json: { url: urlOf(draft.value) } });
      await explained(adding, `${host}:${port}`);
      toast(t('done'));
      changed();
    },
  });
}
